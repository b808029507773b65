/*
 * Registration with rocprofiler-sdk: once per process, and before HIP makes its first queue. All
 * contexts, buffers and services are made then; later they can only be started.
 */
#ifndef BACKEND_AMD_SDK_REGISTER_H
#define BACKEND_AMD_SDK_REGISTER_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/sdk_abi.h"
#include "base/err.h"

/*
 * Registers, unless that was done. E_NOLIB, E_VERSION; E_STATE if HIP was faster, or in a
 * forked child if the parent had registered.
 */
int sdk_register(struct proton_error *err);
/* Registers if something else was faster. True if that made it impossible. */
bool sdk_register_is_too_late(struct proton_error *err);
/* True if HIP will call the tool, in the process that uses the GPU (ROCP_TOOL_LIBRARIES). */
bool sdk_register_is_up_to_hip(void);
/*
 * Registers if this process seems to use HIP; failures are reported by a later start. Called again,
 * before torch.profiler starts, it registers Kineto too, or says that it cannot.
 */
void sdk_register_early(void);
/* E_STATE if this process uses a GPU through a HIP that does not call the library. */
int sdk_register_check_hip(struct proton_error *err);
/* The library's version that was passed to the tool; 0 before the registration. */
uint32_t sdk_register_version(void);

/* True if launches of graphs have events (sdk_callbacks_on_graph()). */
bool sdk_register_has_graph_events(void);

#endif
