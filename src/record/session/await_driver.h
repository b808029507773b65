/*
 * Under the `proton` command the NVIDIA driver itself tells when a process initialises it
 * (CUDA_INJECTION64_PATH). A backend then waits for that before it touches the vendor's profiling
 * library, whose threads would not be there in a child that the program forks first.
 */
#ifndef RECORD_SESSION_AWAIT_DRIVER_H
#define RECORD_SESSION_AWAIT_DRIVER_H

#include <stdbool.h>

#include "base/err.h"

/* True if the driver will tell, and has not yet in this process. */
bool driver_is_awaited(void);
/* The error of a backend that could not begin when it was told, if one could not; else OK. */
int driver_failure(struct proton_error *err);

#endif
