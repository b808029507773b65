/* Functions of libamdhip64. */
#include "driver/hip_functions.h"

#include <stdatomic.h>

#include "base/array.h"
#include "base/mutex.h"
#include "driver/amd_library.h"
#include "driver/library_search.h"

struct hip_functions hip;

static const struct function functions[] = {
#define NEEDED(name, arguments) {#name, offsetof(struct hip_functions, name), 1},
#define OPTIONAL(name, arguments) {#name, offsetof(struct hip_functions, name), 0},
	HIP_FUNCTIONS(NEEDED) HIP_OPTIONAL_FUNCTIONS(OPTIONAL)
#undef NEEDED
#undef OPTIONAL
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards binding */
static _Atomic bool is_bound;

static const char *find_missing(void)
{
	return functions_missing(functions, ARRAY_LENGTH(functions), &hip, 1);
}

const char *hip_functions_bind(void *library)
{
	MUTEX_HOLD(&lock);
	if (find_missing())
		functions_bind(library, functions, ARRAY_LENGTH(functions), &hip);
	const char *missing = find_missing();
	/* release: pairs with hip_functions_find() */
	atomic_store_explicit(&is_bound, true, memory_order_release);
	return missing;
}

bool hip_functions_find(void)
{
	if (atomic_load_explicit(&is_bound, memory_order_acquire))
		return true;
	void *library = amd_library_get_loaded(AMD_HIP);
	if (library)
		hip_functions_bind(library);
	return library;
}

void hip_functions_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
