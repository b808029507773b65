/*
 * Postponing backends until the driver is initialized. Under the `proton` command the NVIDIA driver
 * reports its initialization (CUDA_INJECTION64_PATH). Until then a backend does not touch the
 * vendor library: its threads would be missing in a child that the program forks first.
 */
#ifndef RECORD_SESSION_AWAIT_DRIVER_H
#define RECORD_SESSION_AWAIT_DRIVER_H

#include <stdbool.h>

#include "base/err.h"

/* True if the driver will report its initialization, and has not yet in this process. */
bool await_driver_is_pending(void);
/* The error of a backend that failed to resume; PROTON_OK if none did. */
int await_driver_failure(struct proton_error *err);

#endif
