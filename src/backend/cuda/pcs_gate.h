/*
 * Gate between driver calls of the program that launch work or load modules, and the recorder's
 * calls that start, stop, enable or disable PC sampling: if both happen at once on different
 * threads, they wait for each other's locks in CUPTI forever.
 */
#ifndef BACKEND_CUDA_PCS_GATE_H
#define BACKEND_CUDA_PCS_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum pcs_gate_kind {
	PCS_GATE_LAUNCH, /* launches, and calls that load or unload modules */
	PCS_GATE_QUERY,  /* calls that come often and rarely load; reported only on request */
	PCS_GATE_KINDS,
};

/* The calling thread begins or ends such a driver call. Calls nest. */
void pcs_gate_pass(enum pcs_gate_kind kind);
void pcs_gate_leave(enum pcs_gate_kind kind);
/*
 * Keeps other threads from passing until pcs_gate_open(). False, and open, if another thread has
 * passed and does not leave within `limit_ns`. One thread at a time may close it.
 */
bool pcs_gate_close(uint64_t limit_ns);
void pcs_gate_open(void);
/* The callbacks of these calls have ended: threads that have passed will not leave. */
void pcs_gate_reset(enum pcs_gate_kind kind);

#endif
