/* Controls of the fake libcuda: streams, captures and the kernel that appends metric values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Called at each kernel launch: the test acts as CUPTI. `node` counts captured kernels. */
typedef void (*fake_on_launch_fn)(bool is_captured, uint32_t node);

void fake_set_on_launch(fake_on_launch_fn on_launch);
/* `stream` is being captured (1; nodes count from 0), its capture failed (2), or none (0). */
void fake_set_capture(uint64_t stream, int status);
/* Kernels launched outside captures run when fake_run_queued() is called, not at once. */
void fake_set_queueing(bool is_queueing);
void fake_run_queued(void);
/* One execution of captured kernel `node`. */
void fake_run_node(uint32_t node);
/* Number of calls that break captures, made without cuThreadExchangeStreamCaptureMode(). */
uint32_t fake_unsafe_calls(void);
