/*
 * How kernel times are measured: by CUPTI's instrumentation in software, or by the hardware event
 * system (HES) of GPUs from Blackwell on. Not yet run on such a GPU.
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
/*
 * Without a wish: requests them where they can do no harm, without a message. All GPUs have them,
 * and no CUDA context is known, which would exist before them. True as above.
 */
bool kernel_times_choose(void);
/*
 * CUPTI did not grant the subscription, or could not record. In this process they are not chosen
 * again. `is_finalized`: CUPTI was taken down, which has ended the request.
 */
void kernel_times_withdraw(bool is_finalized);
/* A record has no valid times. */
void kernel_times_note_missing(void);
/* After the last record: if some had none, later sessions do not choose hardware times. */
void kernel_times_check(void);
/* True if CUPTI reports that they are used. `subscriber`: NULL with the first interface. */
bool kernel_times_are_hardware(void *subscriber);

#endif
