/*
 * Gate between the program's threads that load modules and the recorder's calls that start, stop,
 * enable or disable PC sampling: CUPTI and the driver wait for each other forever if both happen at
 * once.
 */
#ifndef BACKEND_CUDA_PCS_GATE_H
#define BACKEND_CUDA_PCS_GATE_H

#include <stdbool.h>
#include <stdint.h>

/* The calling thread enters and leaves a driver call that may load a module. Calls nest. */
void pcs_gate_pass(void);
void pcs_gate_leave(void);
/*
 * Keeps other threads from passing until pcs_gate_open(). False if one has passed and does not
 * leave within `limit_ns`.
 */
bool pcs_gate_close(uint64_t limit_ns);
void pcs_gate_open(void);
/* The callbacks have ended: threads that have passed will not leave. */
void pcs_gate_reset(void);

#endif
