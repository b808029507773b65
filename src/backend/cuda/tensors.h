/*
 * Device metrics of the CUDA backend, from request to value: read by an append (append.h), at once
 * or in each replay of a graph, and attributed when the value arrives.
 */
#ifndef BACKEND_CUDA_TENSORS_H
#define BACKEND_CUDA_TENSORS_H

#include <stdbool.h>

#include "record/thread/device_metric.h"

struct tensor;

void tensors_start(void);
/* After the last session, and after the graphs have been cleared. */
void tensors_stop(void);

/* read_metric() of the backend. */
int tensors_read(const struct device_metric *metric, struct proton_error *err);

/* True while the calling thread launches an append. */
bool tensors_are_launching(void);
/* The frame of the append kernel's name, to recognize it in unknown graphs. */
uint32_t tensors_kernel_frame(void);

/* The append being captured on this thread, held by a graph node; NULL if there is none. */
struct tensor *tensors_hold_captured(void);
/* The node was freed. */
void tensors_drop(struct tensor *tensor);
/* Adds one execution of it, in a replay launched at `launch`. From any thread. */
void tensors_executed(struct tensor *tensor, struct proton_context launch, uint64_t start_ns);

/* On the launching thread of a graph: drains the ring buffers if they are filling up. */
void tensors_relieve(void);

/* Periodically, while the program runs: adds the values that can be attributed with certainty. */
void tensors_catch_up(void);

/*
 * Two parts of a flush: tensors_collect(), after all work has run, takes the values that have
 * arrived; tensors_settle(), after its records have arrived, attributes values without a record to
 * the newest replay.
 */
void tensors_collect(void);
void tensors_settle(void);

#endif
