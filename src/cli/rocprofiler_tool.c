/*
 * Tool library libproton_rocprofiler.so: rocprofiler-sdk loads it into a process that starts to use
 * HIP, if ROCP_TOOL_LIBRARIES names it (`proton`, handover.c). It is a separate library,
 * because ROCm aborts a program in which rocprofiler_configure() is visible and rocprofiler-sdk is
 * missing; libproton_inject.so is visible in every program that `proton` starts.
 */

#include <libproton/proton.h>

#include "cli/tool_session.h"

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

static struct result original;

/* Contexts and services exist after the recorder's own function, and can be started. */
static int initialize(finalize_fn finalize, void *data)
{
	int status = original.initialize(finalize, data);

	start_session();
	return status;
}

HERE struct result *rocprofiler_configure(uint32_t version, const char *version_text,
					  uint32_t priority, void *client);

HERE struct result *rocprofiler_configure(uint32_t version, const char *version_text,
					  uint32_t priority, void *client)
{
	static struct result changed;

	if (is_refused())
		return NULL;
	struct result *made = proton_rocprofiler_configure(version, version_text, priority, client);
	if (!made) {
		start_session(); /* which reports why, unless a session is live */
		return NULL;
	}
	original = *made;
	changed = original;
	changed.initialize = initialize;
	return &changed;
}
