/*
 * Appending bytes of device memory to a ring buffer in host memory, in stream order, by a small
 * kernel: at once, or as a node of the graph that the stream is being captured into. Appends never
 * wait; values that find the ring buffer full are counted.
 */
#pragma once

#include "backend/gpu/tensors.h"

extern const struct tensors_reader append_reader;

/* After fork(), in the child. */
void append_forget(void);
