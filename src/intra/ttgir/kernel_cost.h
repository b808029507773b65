/*
 * Static estimate of how long a kernel and its loops take, from the operations in its TTGIR.
 *
 * Only the ratio of such times to the cost of records is used, so they are rough: the work of one
 * CTA on its SM, memory and arithmetic at the same time, and a latency.
 */
#pragma once

#include "intra/ttgir/mlir_text.h"

#define COST_NO_REGION UINT32_MAX

/* The kernel (number 0), a noinline function, or a loop. */
struct cost_region {
	uint32_t parent; /* lower number, or COST_NO_REGION */
	uint32_t trips;  /* iterations of a loop; assumed if they are not constant */
	bool is_constant;
	bool has_dot;
	bool has_load; /* into registers; without the loops inside */
	/* cycles of one execution or iteration, with the loops inside */
	double memory;
	double compute;
	double arithmetic; /* part of `compute`, outside of dots */
	double latency;
	/* cycles that records take in one execution or iteration, and may take; negative: any */
	double used;
	double limit;
};

struct kernel_cost {
	struct cost_region *regions;
	uint32_t count;
	uint32_t *region_of_line; /* by line of the text, counted from 0 */
	uint32_t warp_count;      /* without partitions */
	bool is_amd;
};

/* Nested loops must not overflow. */
static inline double cost_limited(double cycles)
{
	return cycles < 1e15 ? cycles : 1e15;
}

int kernel_cost_read(const struct mlir_regions *lines, struct kernel_cost *out,
		     struct proton_error *err);
void kernel_cost_fini(struct kernel_cost *cost);

/* CTAs that probably run on an SM at once. */
double kernel_cost_ctas(const struct kernel_cost *cost, uint32_t region);
/* Cycles of the SM's memory that one execution or iteration takes. */
double kernel_cost_memory(const struct kernel_cost *cost, uint32_t region);
/*
 * Registers of a thread for the tensor that an operation loads, stores or converts, or for the
 * operands of a dot. With a scope around it all of them are in use at once; otherwise the assembler
 * interleaves the parts of a tensor.
 */
double kernel_cost_registers(const struct kernel_cost *cost, const struct mlir_line *line);
/* Cycles of the SM's memory for so many bytes that are not in a cache. */
double kernel_cost_of_bytes(double bytes);
/* Cycles from the start to the end of one execution of the region. */
double kernel_cost_cycles(const struct kernel_cost *cost, uint32_t region);
