/*
 * Search for the libraries of ROCm and loading them. A process must not get a second ROCm: two HSA
 * runtimes in one process crash it, and a tool that uses the second one sees none of the work. So
 * the copy that the process has, or will have, comes first (amd_library.c has the order).
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

enum amd_library {
	AMD_HIP,             /* libamdhip64 */
	AMD_HSA,             /* libhsa-runtime64 */
	AMD_ROCPROFILER_SDK, /* librocprofiler-sdk */
	AMD_REGISTER,        /* librocprofiler-register, which HIP loads; never opened */
	AMD_TORCH,           /* libtorch_cpu; never opened */
	AMD_SDK_ROCTX,       /* librocprofiler-sdk-roctx */
	AMD_ROCTRACER,       /* libroctracer64 */
	AMD_ROCTX,           /* libroctx64 */
	AMD_LIBRARIES
};

/* True if this process uses HIP or the machine has an AMD GPU. Loads nothing. */
bool amd_library_is_likely(void);
/* The handle of the copy that the process has; NULL if it has none. Loads nothing. */
void *amd_library_get_loaded(enum amd_library library);
/* A handle for dlsym(), always the same. NULL with E_NOLIB and the searched places. */
void *amd_library_open(enum amd_library library, struct proton_error *err);
/* The file that a program would find, with the recorder's library at `near`; loads nothing. */
bool amd_library_find_file(enum amd_library library, const char *near, char path[static PATH_MAX]);
/* The file that was opened; NULL if none was. */
const char *amd_library_path(enum amd_library library);
