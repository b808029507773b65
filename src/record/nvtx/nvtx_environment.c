/* Setting NVTX_INJECTION64_PATH in a threaded process. */
#include "record/nvtx/nvtx_environment.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "base/message.h"

#define VARIABLE "NVTX_INJECTION64_PATH"

static char *entry;       /* "VARIABLE=path", made once */
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

void nvtx_environment_set(void)
{
	const char *given = environment_get(VARIABLE);

	if (!make_entry())
		return;
	if (!given || !*given)
		environment_append(entry);
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
	if (entry)
		environment_remove(entry);
}
