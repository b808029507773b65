/* The message that the backends for AMD GPUs have not run on hardware. */
#include "backend/amd/experimental.h"

#include "base/message.h"

void experimental_report(const char *backend)
{
	message_once("backend \"%s\" is experimental: it has not yet run on an AMD GPU; run "
		     "tests/gpu and send the result (docs/guide/amd.md)",
		     backend);
}
