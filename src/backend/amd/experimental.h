/* The message that the backends for AMD GPUs have not run on hardware. */
#ifndef BACKEND_AMD_EXPERIMENTAL_H
#define BACKEND_AMD_EXPERIMENTAL_H

#include "base/message.h"

/* Prints it once per run; `backend` is the name of the backend that has started. */
#define EXPERIMENTAL_REPORT(backend)                                                               \
	message_once("backend \"" backend "\" is experimental: it has not yet run on an AMD GPU; " \
		     "run tests/gpu and send the result (docs/guide/amd.md)")

#endif
