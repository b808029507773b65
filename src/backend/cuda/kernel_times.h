/*
 * How kernel times are measured: by CUPTI's instrumentation in software, or by the hardware event
 * system (HES) of GPUs from Blackwell on, on request. Not yet run on such a GPU.
 */
#ifndef BACKEND_CUDA_KERNEL_TIMES_H
#define BACKEND_CUDA_KERNEL_TIMES_H

#include <stdbool.h>

#include "base/err.h"

/* Reads PROTON_KERNEL_TIMES; true for "hardware". E_INVALID for another word than "software". */
int kernel_times_read(bool *wants_hardware_out, struct proton_error *err);
/*
 * If hardware times are wanted, requests them, before subscribing. False if they are not wanted or
 * not available; in the latter case a message is printed. True excludes other subscribers.
 */
bool kernel_times_request(void);
/* True if CUPTI reports that they are used. `subscriber`: NULL with the first interface. */
bool kernel_times_are_hardware(void *subscriber);

#endif
