/*
 * Tool library libproton_rocprofiler.so: rocprofiler-sdk loads it into a process that starts to use
 * HIP, if ROCP_TOOL_LIBRARIES names it (`proton`, handover_amd.h). It is a separate library,
 * because ROCm aborts a program in which rocprofiler_configure() is visible and rocprofiler-sdk is
 * missing; libproton_inject.so is visible in every program that `proton` starts.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <libproton/proton.h>

#include "cli/handover.h"

#define HERE __attribute__((visibility("default")))

typedef void (*finalize_fn)(void); /* only passed on */

/* rocprofiler_tool_configure_result_t */
struct result {
	size_t size;
	int (*initialize)(finalize_fn finalize, void *data);
	void (*finalize)(void *data);
	void *data;
};

_Static_assert(sizeof(struct result) == 32, "rocprofiler_tool_configure_result_t");

static const char tool_is_ours; /* an address in this library */
static struct result original;

/* As if the NVIDIA driver had loaded libproton_inject.so. */
static void start_session(void)
{
	Dl_info info;
	char path[PATH_MAX];
	const char *slash;
	void *library;
	void *symbol;
	int (*inject)(void);

	if (!dladdr(&tool_is_ours, &info) || !info.dli_fname)
		return;
	slash = strrchr(info.dli_fname, '/');
	snprintf(path, sizeof(path), "%.*slibproton_inject.so",
		 slash ? (int)(slash + 1 - info.dli_fname) : 0, info.dli_fname);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	symbol = library ? dlsym(library, "InitializeInjection") : NULL;
	if (!symbol)
		return;
	memcpy(&inject, &symbol, sizeof(inject)); /* a pointer to code */
	inject();
}

/* Contexts and services exist after the recorder's own function, and can be started. */
static int initialize(finalize_fn finalize, void *data)
{
	int status = original.initialize(finalize, data);

	start_session(); /* which reports a failure */
	return status;
}

HERE struct result *rocprofiler_configure(uint32_t version, const char *version_text,
					  uint32_t priority, void *client);

HERE struct result *rocprofiler_configure(uint32_t version, const char *version_text,
					  uint32_t priority, void *client)
{
	static struct result changed;
	struct result *made;

	/* Not below `proton`, or a process that must not write files named by the environment. */
	if (!getenv(HANDOVER_QUIET) || getauxval(AT_SECURE))
		return NULL;
	made = proton_rocprofiler_configure(version, version_text, priority, client);
	if (!made) {
		start_session(); /* which reports why, unless one is live */
		return NULL;
	}
	original = *made;
	changed = original;
	changed.initialize = initialize;
	return &changed;
}
