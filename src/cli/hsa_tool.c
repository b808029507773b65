/*
 * Tool library libproton_hsa.so: the HSA runtime loads it into each process that initializes it, as
 * HIP does, if HSA_TOOLS_LIB names it (`proton`, handover.c). It is how the backend "roctracer"
 * gets into children: ROCm 6 has no other way before the first call of HIP. The runtime closes
 * this library when it is shut down; libproton_inject.so stays.
 */
#include <stdint.h>

#include "cli/tool_session.h"

#define HERE __attribute__((visibility("default")))

HERE bool OnLoad(void *table, uint64_t runtime_version, uint64_t failed_count,
		 const char *const *failed);

/* Called while the runtime initializes itself: nothing here may call it. */
HERE bool OnLoad(void *table, uint64_t runtime_version, uint64_t failed_count,
		 const char *const *failed)
{
	if (!is_refused())
		start_session();
	return true;
}
