/* Registration when rocprofiler-sdk asks for it: the public name, for libproton_rocprofiler.so. */
#include <libproton/proton.h>

#include "backend/amd/sdk_register.h"

void *proton_rocprofiler_configure(uint32_t version, const char *version_text, uint32_t priority,
				   void *client)
{
	return sdk_register_configure(version, version_text, priority, client);
}
