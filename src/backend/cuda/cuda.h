/* Inside the CUDA backend: what its files share. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include <stdatomic.h>

#include "backend/cuda/cupti_api.h"

/*
 * Set in the child of a process that had touched CUPTI, which goes on calling back there: what it
 * asks for takes no lock, which a thread of the parent may have held, and calls nothing of CUPTI.
 */
extern _Atomic bool cuda_is_orphan;

/* Launch callbacks: on the application's threads. */
int callbacks_start(const struct cupti_api *api, struct proton_error *err);
void callbacks_stop(const struct cupti_api *api);
/* Kernel launches seen by callbacks while some session was active. */
uint64_t callbacks_launched(void);
/* The last call of which an unknown number of records comes: a graph's launch, a copy; 0: none. */
uint32_t callbacks_last_shared(void);
/* Begins or ends memory operations: their callbacks and records. */
int callbacks_set_memory(const struct cupti_api *api, bool is_wanted, struct proton_error *err);
/* True if this launch was made before the subscription: it is nobody's. */
bool callbacks_is_older(uint32_t correlation_id);
/* Says so, once, if another tool has taken our subscription away. */
void callbacks_check(const struct cupti_api *api);
/* True if that was so. */
bool callbacks_were_ended(void);

/* Activity records: on CUPTI's thread. On failure nothing stays enabled. */
int activity_start(const struct cupti_api *api, struct proton_error *err);
void activity_stop(const struct cupti_api *api);
/* True if records were missed since the start: another tool may have taken CUPTI's buffers. */
bool activity_missed_records(void);
/*
 * Makes CUPTI hand over what is complete and waits until `launched` launches have their records, or
 * until none has come for a while: a long one, or a short one if it is known that some may never
 * come (`in_doubt`). Those that are given up are counted. E_IO if CUPTI refuses to hand over.
 */
int activity_flush(const struct cupti_api *api, uint64_t launched, uint32_t last_shared,
		   bool in_doubt, struct proton_error *err);
/* Makes CUPTI hand over what is complete; false if a flush is under way, which does. */
bool activity_ask(const struct cupti_api *api);

/* CPU time that records have cost on CUPTI's thread since the start, in ns. */
uint64_t activity_cost_ns(void);
/* Estimate of what callbacks have cost the application's threads since the start, in ns. */
uint64_t callbacks_cost_ns(void);

/* Tells what a profile says about the libraries, the GPUs and the cost. */
void describe_cuda(const struct cupti_api *api,
		   void (*add)(void *user, const char *key, const char *value), void *user);

/* The recorder's id of CUDA device `ordinal`, with its properties. */
uint32_t devices_of_cuda(const struct cupti_api *api, uint32_t ordinal);

#endif
