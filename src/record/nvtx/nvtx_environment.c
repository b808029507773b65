/*
 * Setting NVTX_INJECTION64_PATH in a threaded process.
 *
 * setenv() may move the array that another thread's getenv() reads, and free the old one. Here the
 * new array is complete before it replaces the old one, and no array is ever freed: readers are
 * always safe. The array is reused unless other code has replaced it, so any number of starts and
 * stops needs only one.
 */
#include "record/nvtx/nvtx_environment.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/message.h"

#define VARIABLE "NVTX_INJECTION64_PATH"

static char *entry;  /* "VARIABLE=path", made once */
static char **array; /* the last array that this file made */
static size_t array_capacity;
static char foreign[256]; /* the other tool that the variable names; "" if none */

/* Path of this library, malloc'd; NULL if unknown. */
static char *own_path(void)
{
	Dl_info info;
	void *address;
	char *(*self)(void) = own_path;

	memcpy(&address, &self, sizeof(address)); /* a pointer to code, which C cannot cast */
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

/* Earlier arrays of the environment: a thread may still be reading one. */
struct kept_array {
	struct kept_array *older;
	char *entries[];
};

static struct kept_array *newest;

static bool append_entry(void)
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
	const char *given = environment_get(VARIABLE);

	if (!make_entry())
		return;
	if (!given || !*given)
		append_entry();
	else if (strcmp(given, entry + strlen(VARIABLE "=")) != 0) /* set by a parent otherwise */
		snprintf(foreign, sizeof(foreign), "%s", given);
}

void nvtx_environment_report(void)
{
	if (*foreign)
		message_once(VARIABLE " is already set to %s; NVTX ranges go to that tool and are "
				      "not recorded",
			     foreign);
}

void nvtx_environment_reset(void)
{
	for (char **at = environ; entry && at && *at; at++) {
		if (*at != entry) /* this file's own string: no other code can have set it */
			continue;
		for (; *at; at++)
			__atomic_store_n(&at[0], at[1], __ATOMIC_RELEASE);
		return;
	}
}
