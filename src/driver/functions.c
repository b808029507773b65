/* Binding of a shared library's functions. */
#include "base/mutex.h"
#include "driver/library_search.h"

#include <dlfcn.h>
#include <string.h>

int functions_load_once(struct functions_once *once, int (*load)(struct proton_error *err),
			struct proton_error *err)
{
	int status = PROTON_OK;

	MUTEX_HOLD(&once->lock);
	if (!once->is_loaded)
		status = load(err);
	once->is_loaded = status == PROTON_OK;
	return status;
}

void functions_bind(void *library, const struct function *functions, size_t count, void *table)
{
	for (size_t i = 0; i < count; i++) {
		void *symbol = dlsym(library, functions[i].name);

		/* a pointer to code, which C cannot cast */
		memcpy((char *)table + functions[i].offset, &symbol, sizeof(symbol));
	}
}

const char *functions_missing(const struct function *functions, size_t count, const void *table,
			      unsigned users)
{
	for (size_t i = 0; i < count; i++) {
		void *symbol;

		memcpy(&symbol, (const char *)table + functions[i].offset, sizeof(symbol));
		if (!symbol && functions[i].users & users)
			return functions[i].name;
	}
	return NULL;
}
