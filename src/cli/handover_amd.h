/*
 * Recording programs that use HIP, and their children.
 *
 * - When HIP registers with rocprofiler-sdk, it loads the libraries that ROCP_TOOL_LIBRARIES names:
 *   libproton_rocprofiler.so is added. If no rocprofiler-sdk is there, the variable is left alone,
 *   because ROCm then aborts the program.
 * - For the backend "roctracer": when HIP initializes the HSA runtime, that loads the libraries
 *   that HSA_TOOLS_LIB names: libproton_hsa.so is added.
 */
#ifndef CLI_HANDOVER_AMD_H
#define CLI_HANDOVER_AMD_H

#include <stdbool.h>

#include "cli/proton_options.h"

#define HANDOVER_AMD_TOOL "libproton_rocprofiler.so"
#define HANDOVER_AMD_HSA_TOOL "libproton_hsa.so"

/* True if ROCm would load a tool, which lies next to `library`, libproton_inject.so. */
bool handover_amd_can_inject(const struct options *options, const char *library);
/* Sets the variables. False if memory ran out. */
bool handover_amd_export(const struct options *options, const char *library);
/* Removes them if they are those of an outer proton. */
void handover_amd_clear(void);

#endif
