/*
 * Metrics in device memory, from the request to the value: read by an append (append.h), at once or
 * in each replay of a graph, and added where they belong when the value arrives.
 */
#ifndef BACKEND_CUDA_TENSORS_H
#define BACKEND_CUDA_TENSORS_H

#include <stdbool.h>

#include "backend/cuda/cupti_api.h"
#include "record/thread/device_metric.h"

struct tensor;

void tensors_start(const struct cupti_api *api);
/* After the last session, and after the graphs have been cleared. */
void tensors_stop(void);

/* The backend's read_metric. */
int tensors_read(const struct device_metric *metric, struct proton_error *err);

/* True while the calling thread's launch is an append of ours. */
bool tensors_are_launching(void);
/* The frame of the kernel's name, to know it in graphs that nothing is known of. */
uint32_t tensors_kernel_frame(void);

/* The append being captured on this thread, held by a node of a graph; NULL if there is none. */
struct tensor *tensors_hold_captured(void);
/* The node is gone. */
void tensors_drop(struct tensor *tensor);
/* One execution of it, in a replay launched at `launch`. From any thread. */
void tensors_executed(struct tensor *tensor, struct proton_context launch, uint64_t start_ns);

/* On the launching thread of a graph: makes room when the device is about to run out of it. */
void tensors_relieve(void);

/* Now and then, while the program runs: adds what has arrived and is sure of its place. */
void tensors_catch_up(void);

/*
 * A flush, in two halves: after everything has run, takes what has arrived; after its records have
 * come, adds values whose record did not come where the newest replay belongs.
 */
void tensors_collect(void);
void tensors_settle(void);

#endif
