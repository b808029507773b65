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
/* Registers if this process seems to use HIP; failures are reported by a later start. */
void sdk_register_early(void);
/* The library's version that was passed to the tool; 0 before the registration. */
uint32_t sdk_register_version(void);

/* The tool's rocprofiler_configure(); NULL: wrong version, or it was registered before. */
struct sdk_configure_result *sdk_register_configure(uint32_t version, const char *version_text,
						    uint32_t priority, struct sdk_client *client);

/* True if launches of graphs have events (sdk_callbacks_on_graph()). */
bool sdk_register_has_graph_events(void);

#endif
