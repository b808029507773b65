/*
 * Times during which PCs of a context were sampled: always, or in windows. Samples are divided
 * between contexts of the program in proportion to kernel time in these, and that gives the number
 * of samples to expect.
 */
#ifndef BACKEND_CUDA_PCS_WINDOWS_H
#define BACKEND_CUDA_PCS_WINDOWS_H

#include <stdint.h>

#include "backend/cuda/cupti_abi.h"
#include "record/store/execution.h"

/* `context` is CUPTI's id, as in kernel records. Times of clock_monotonic_ns(). */
void pcs_windows_begin(uint32_t context, uint64_t now_ns);
void pcs_windows_end(uint32_t context, uint64_t now_ns);
/* The part of a kernel's time that is in windows of its context. */
uint64_t pcs_windows_overlap(uint32_t context, uint64_t start_ns, uint64_t end_ns);
/* Forgets all windows that have ended. */
void pcs_windows_clear(void);

/*
 * Counts time of processors that the kernel may have used while it was sampled: at most one
 * processor per block. An idle processor gives no samples.
 */
void pcs_windows_expect(const struct cupti_kernel *kernel, const struct execution *execution);
/* Cycles counted so far, at the highest clock rate of the device. */
uint64_t pcs_windows_expected_cycles(void);

#endif
