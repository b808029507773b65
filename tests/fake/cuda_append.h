/* What a test tells the fake libcuda about streams, captures and the appending kernel. */
#ifndef TESTS_FAKE_CUDA_APPEND_H
#define TESTS_FAKE_CUDA_APPEND_H

#include <stdbool.h>
#include <stdint.h>

/* What happens when a kernel is launched: the test plays CUPTI. `node` counts captured kernels. */
typedef void (*fake_on_launch_fn)(bool is_captured, uint32_t node);

void fake_set_on_launch(fake_on_launch_fn on_launch);
/*
 * `stream` is being captured (1; nodes are counted from 0 again), its capture has failed (2), or no
 * stream is captured (0).
 */
void fake_set_capture(uint64_t stream, int status);
/* Kernels launched outside captures run when fake_run_queued() is called, not at once. */
void fake_set_queueing(bool is_queueing);
void fake_run_queued(void);
/* One execution of captured kernel `node`. */
void fake_run_node(uint32_t node);
/* Calls that would have failed a capture, made without saying that it is on purpose. */
uint32_t fake_unsafe_calls(void);

#endif
