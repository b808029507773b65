/* CUPTI's callbacks: launches, graphs, modules and contexts. */
#pragma once

#include <stdbool.h>

#include "backend/cuda/cupti_api.h"
#include "base/err.h"

/* API callbacks: on the application's threads. `may_choose`: see interface_subscribe(). */
int callbacks_start(bool may_choose, struct proton_error *err);
/* Releases the subscription. False if CUPTI does not. */
bool callbacks_release(void);
/*
 * CUPTI stays attached while nothing is recorded: calls are only counted. The subscription stays,
 * because subscribing and unsubscribing crash threads that are in calls of graphs, modules or
 * contexts: CUPTI 13.0 counts a subscriber before it allocates the table that such a call reads (3
 * of 144 sessions).
 */
void callbacks_pause(void);
/*
 * Between windows, while CUPTI stays attached, launches are not attributed. Set before records end,
 * and reset after they begin: a graph is noted as replayed with records only if it was.
 */
void callbacks_set_between(bool is_on);
/* cuptiFinalize() has ended the subscription. */
void callbacks_forget(void);
/* After one of them. */
void callbacks_stop(void);
/* Begins or ends memory operations: their callbacks and records. */
int callbacks_set_memory(bool is_wanted, struct proton_error *err);
/* Begins or ends the events and calls of modules, for PC sampling. */
int callbacks_set_modules(bool is_wanted, struct proton_error *err);
/* Enables or disables the event that gives a loaded module's cubin at its next launch. */
void callbacks_ask_modules(bool is_wanted);
/* Prints a warning, once, if another tool has taken the subscription away. */
void callbacks_check(void);
/* True if callbacks_check() found that. */
bool callbacks_were_ended(void);

/* Resource callback for graphs, on the application's thread. */
void graphs_on_resource(uint32_t event, const struct cupti_graph_data *graph);
