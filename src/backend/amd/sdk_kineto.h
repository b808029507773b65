/*
 * Kineto, the library of torch.profiler, as a second tool of rocprofiler-sdk. If the SDK is
 * initialized when Kineto starts, it takes itself for registered and has no GPU events. So Proton
 * registers Kineto as well. The lock of sdk_register.c is held.
 */
#ifndef BACKEND_AMD_SDK_KINETO_H
#define BACKEND_AMD_SDK_KINETO_H

#include <stdbool.h>
#include <stdint.h>

/* Before and after Proton's registration: if PyTorch is loaded, it is registered in the same. */
void sdk_kineto_begin(void);
void sdk_kineto_end(void);
/*
 * After it, if PyTorch was loaded since. `version` is the SDK's; where that is too old, and
 * torch.profiler is starting, it prints a message.
 */
void sdk_kineto_add(uint32_t version, bool is_starting);

#endif
