/*
 * Sets of counters for kernels, each of which a GPU counts in a single pass: chosen from the base
 * metrics of the chip and from the number of passes, never by the chip's name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "backend/cuda/profiler_host.h"

/* Values of a launch. Only the last set has operations of vector units. */
enum counter_value {
	COUNTER_FLOPS4,
	COUNTER_FLOPS8,
	COUNTER_FLOPS16,
	COUNTER_FLOPS32,
	COUNTER_FLOPS64,
	COUNTER_TENSOR,   /* tensor cores of all widths, which are in the values above too */
	COUNTER_BYTES,    /* read from and written to memory */
	COUNTER_L2_BYTES, /* between the SMs and L2 */
	COUNTER_WARPS,    /* active, in percent of what an SM can hold, while it is active */
	COUNTER_PIPE,     /* cycles of tensor cores */
	COUNTER_VALUES,
};

#define COUNTER_SETS_MAX 10u
#define COUNTER_SET_METRICS_MAX 24u

struct counter_set {
	struct profiler_host host; /* configured */
	char *names[COUNTER_SET_METRICS_MAX];
	enum counter_value values[COUNTER_SET_METRICS_MAX]; /* by name: the sum that it is in */
	double factors[COUNTER_SET_METRICS_MAX];
	size_t count;
};

struct counter_sets {
	uint8_t *availability; /* owned */
	size_t count;
	struct counter_set set[COUNTER_SETS_MAX];
	double l2_bytes_per_clock; /* at most; set by the first values that are read, 0 before */
	bool has_pipe;             /* set 1: COUNTER_PIPE is 0 only without tensor operations */
	size_t left_out;           /* metrics of tensor cores that fit into no single pass */
};

/* Chooses the sets; false: the host library counts nothing for this chip. */
bool counter_sets_choose(struct counter_sets *sets, const struct profiler_host *host);
/* The values of a launch, added to `sums`. CUPTI's result. */
int counter_sets_read(struct counter_sets *sets, size_t set, const uint8_t *image,
		      size_t image_bytes, size_t index, double sums[COUNTER_VALUES]);
void counter_sets_fini(struct counter_sets *sets);
