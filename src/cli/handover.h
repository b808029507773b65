/*
 * Environment variables that pass the options of `proton` to the target process, because the
 * arguments belong to the target. The code that starts the recorder there (triton_proton/_launch,
 * cli/inject.c) removes them before the target's code runs: neither it nor its children see them.
 *
 * With an NVIDIA driver, children that initialize CUDA are recorded too, unless the user disables
 * it: CUDA_INJECTION64_PATH names libproton_inject.so, which the driver loads into each such
 * process, and the variables that it needs remain in the environment (HANDOVER_PID is set). On AMD
 * GPUs, ROCP_TOOL_LIBRARIES or HSA_TOOLS_LIB does the same for processes that use HIP
 * (handover.c).
 */
#pragma once

#include <string.h>
#include <unistd.h>

#include "cli/proton_options.h"

#define HANDOVER_PREFIX "PROTON_RUN_"

#define HANDOVER_NAME HANDOVER_PREFIX "NAME"
#define HANDOVER_BACKEND HANDOVER_PREFIX "BACKEND"
#define HANDOVER_CONTEXT HANDOVER_PREFIX "CONTEXT"
#define HANDOVER_MODE HANDOVER_PREFIX "MODE"
#define HANDOVER_DATA HANDOVER_PREFIX "DATA"
#define HANDOVER_HOOK HANDOVER_PREFIX "HOOK"
#define HANDOVER_FORMAT HANDOVER_PREFIX "FORMAT"
#define HANDOVER_BACKWARD HANDOVER_PREFIX "BACKWARD" /* "1", or absent; so is the next */
#define HANDOVER_MODULES HANDOVER_PREFIX "MODULES"
#define HANDOVER_TORCH_OPS HANDOVER_PREFIX "TORCH_OPS"
#define HANDOVER_SHAPES HANDOVER_PREFIX "SHAPES"
#define HANDOVER_MEMORY HANDOVER_PREFIX "MEMORY" /* "1", or absent */
#define HANDOVER_QUIET HANDOVER_PREFIX "QUIET"   /* "0" or "1"; always set */
/* Absent, or "AFTER LENGTH" in seconds; "-": started by proton ctl, "0": to the program's end. */
#define HANDOVER_WAIT HANDOVER_PREFIX "WAIT"
/* The command name for `proton-viewer` in messages; absent if the plain name is Proton's. */
#define HANDOVER_VIEWER HANDOVER_PREFIX "VIEWER"
/* The previous value of PYTHONPATH or LD_PRELOAD; absent if it was not set. */
#define HANDOVER_PYTHONPATH HANDOVER_PREFIX "PYTHONPATH"
#define HANDOVER_LD_PRELOAD HANDOVER_PREFIX "LD_PRELOAD"
/* Absolute output path of children without suffix and process id. Set if they are recorded. */
#define HANDOVER_CHILDREN HANDOVER_PREFIX "CHILDREN"
/* "1" if children are also entered through LD_PRELOAD and report to the target when they exit. */
#define HANDOVER_GATHER HANDOVER_PREFIX "GATHER"
/* The target's process id; set if CUDA_INJECTION64_PATH is Proton's, or LD_PRELOAD was used. */
#define HANDOVER_PID HANDOVER_PREFIX "PID"
/* "1" if ROCPROFILER_REGISTER_LIBRARY is Proton's. */
#define HANDOVER_SDK HANDOVER_PREFIX "SDK"
/* sys.executable of the target interpreter; other interpreters only pass the variables on. */
#define HANDOVER_PYTHON HANDOVER_PREFIX "PYTHON"

/* Removes all of these variables, in place (inject.h). */
static inline void handover_clear(void)
{
	size_t kept = 0;

	for (size_t i = 0; environ && environ[i]; i++)
		if (strncmp(environ[i], HANDOVER_PREFIX, strlen(HANDOVER_PREFIX)) != 0)
			environ[kept++] = environ[i];
	if (environ)
		environ[kept] = NULL;
}

/* True if CUDA_INJECTION64_PATH loads a library into processes that initialize CUDA. */
bool handover_can_inject(const struct options *options);

/*
 * Puts the options into the environment. The driver loads `library` (NULL: none found) into
 * children, and into the target too if `must_inject`. False if memory ran out (a message was
 * printed).
 */
bool handover_export(const struct options *options, const char *library, bool must_inject);

/* For a target entered through LD_PRELOAD: its children are too, unless the user disables it. */
bool handover_follow(const struct options *options);

/* Puts `first` before the colon-separated `variable`. The old value goes to `saved`. */
bool handover_put_in_front(const char *variable, const char *saved, const char *first);

/* Tools of ROCm, next to libproton_inject.so. */
#define HANDOVER_AMD_TOOL "libproton_rocprofiler.so"
#define HANDOVER_AMD_HSA_TOOL "libproton_hsa.so"
