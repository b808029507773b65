/*
 * NVTX_INJECTION64_PATH. See nvtx_environment.h.
 *
 * setenv() may move the array that another thread's getenv() walks, and free the old one. Here
 * the new array is complete before it takes the old one's place, and no array is ever freed, so
 * that readers are always safe. The array is used again as long as nobody else replaced it: any
 * number of starts and stops needs one.
 */
#include "record/nvtx/nvtx_environment.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/note.h"
#include "record/nvtx/nvtx.h"

#define VARIABLE "NVTX_INJECTION64_PATH"

static char *entry;  /* "VARIABLE=path", made once */
static char **array; /* the last one that we made */
static size_t array_capacity;
static char foreign[256]; /* the file that the variable names instead; "" if none */

/* Where this library is, malloc'd; NULL if that cannot be told. */
static char *own_path(void)
{
	Dl_info info;
	void *address;
	int (*self)(nvtx_get_table_fn) = InitializeInjectionNvtx2;

	memcpy(&address, &self, sizeof(address)); /* a pointer to code, which C has no cast for */
	if (!dladdr(address, &info) || !info.dli_fname)
		return NULL;
	return realpath(info.dli_fname, NULL);
}

static bool make_entry(void)
{
	char *path;

	if (entry)
		return true;
	path = own_path();
	if (path && asprintf(&entry, VARIABLE "=%s", path) < 0)
		entry = NULL;
	free(path);
	return entry;
}

static size_t count_entries(void)
{
	size_t count = 0;

	while (environ && environ[count])
		count++;
	return count;
}

/* Arrays that were the environment once: somebody may still be reading one. */
struct kept_array {
	struct kept_array *older;
	char *entries[];
};

static struct kept_array *newest;

static bool append(void)
{
	size_t count = count_entries();
	struct kept_array *kept;
	char **made;

	if (environ && environ == array && count + 2 <= array_capacity) {
		array[count + 1] = NULL;
		__atomic_store_n(&array[count], entry, __ATOMIC_RELEASE);
		return true;
	}
	kept = calloc(1, sizeof(*kept) + (count + 2) * sizeof(*kept->entries));
	if (!kept)
		return false;
	kept->older = newest;
	newest = kept;
	made = kept->entries;
	if (environ)
		memcpy(made, environ, count * sizeof(*made));
	made[count] = entry;
	array = made;
	array_capacity = count + 2;
	__atomic_store_n(&environ, made, __ATOMIC_RELEASE);
	return true;
}

void nvtx_environment_set(void)
{
	const char *given = getenv(VARIABLE);

	if (!make_entry())
		return;
	if (!given || !*given)
		append();
	else if (strcmp(given, entry + strlen(VARIABLE "=")) != 0) /* else a parent's, and ours */
		snprintf(foreign, sizeof(foreign), "%s", given);
}

void nvtx_environment_say(void)
{
	static atomic_flag was_said = ATOMIC_FLAG_INIT;

	if (*foreign && !atomic_flag_test_and_set(&was_said))
		note(VARIABLE " is set to %s: NVTX ranges go there and are not recorded", foreign);
}

void nvtx_environment_reset(void)
{
	for (char **at = environ; entry && at && *at; at++) {
		if (*at != entry) /* the very string: nobody else can have put it there */
			continue;
		for (; *at; at++)
			__atomic_store_n(&at[0], at[1], __ATOMIC_RELEASE);
		return;
	}
}
