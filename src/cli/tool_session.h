/* Starting the recorder from a library that ROCm has loaded into a process; for its one file. */
#pragma once

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "base/environment.h"
#include "cli/handover.h"

static const char tool_is_ours; /* an address in this library */

/* Not below `proton`, or in a process that must not write files named by the environment. */
static bool is_refused(void)
{
	return !environment_get(HANDOVER_QUIET);
}

/* Does as the NVIDIA driver: loads libproton_inject.so, next to this library, and calls it. */
static void start_session(void)
{
	Dl_info info;
	char path[PATH_MAX];
	int (*inject)(void);

	if (!dladdr(&tool_is_ours, &info) || !info.dli_fname)
		return;
	const char *slash = strrchr(info.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*slibproton_inject.so",
		 slash ? (int)(slash + 1 - info.dli_fname) : 0, info.dli_fname);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
	if (!symbol)
		return;
	memcpy(&inject, &symbol, sizeof(inject)); /* a pointer to code */
	inject();
}
