/*
 * How kernel times are measured: by CUPTI's instrumentation in software, or by the hardware event
 * system (HES) of GPUs from Blackwell on. Not yet run on such a GPU.
 */
#pragma once

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

/*
 * Executable graphs that were replayed since CUPTI was attached. CUPTI patches a graph at its first
 * replay with kernel records and again at its first replay without; the context is lost if CUPTI is
 * left while a graph is patched for "without" (measured with CUPTI 13.0 to 13.5: `rga1r0rFr` in
 * docs/design/other-tools.md).
 */

/* A replay begins, with kernel records. No lock. */
void replayed_graphs_note(const void *exec);
/* The graph is destroyed. */
void replayed_graphs_forget(const void *exec);
/* Records end, but CUPTI stays attached: replays from now on are not seen. */
void replayed_graphs_unwatch(void);
/* Records have begun before, and some graph may have been replayed without them since. */
bool replayed_graphs_are_suspect(void);
bool replayed_graphs_any(void);
/* CUPTI was left. */
void replayed_graphs_clear(void);
