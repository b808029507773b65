/*
 * Distinct kernels (function and launch configuration), what counters have measured of them, and
 * the launches for which that is an estimate. Values are added to the profile at a flush.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <libproton/proton.h>

#include "backend/cuda/counter_sets.h"

/* The identity of a kernel. */
struct counter_launch {
	const void *function;
	const char *name; /* its address tells a later function at the address of an unloaded one */
	uint32_t sizes[7]; /* grid, block, bytes of shared memory */
};

#define COUNTER_NO_SET UINT32_MAX

/* The kernel's number, not 0; 0: there are too many. Counts the launch. Any thread. */
uint32_t counter_kernels_find(const struct counter_launch *launch);
/* The set that is wanted of this kernel now; COUNTER_NO_SET: none. */
uint32_t counter_kernels_wanted(uint32_t kernel);
/* A launch is measured, or will have no values: it counts as an attempt. */
void counter_kernels_note_range(uint32_t kernel);
/* The values of a measured launch at `where`, which ends with the kernel. */
void counter_kernels_add(uint32_t kernel, const struct counter_sets *sets, uint32_t set,
			 const double values[COUNTER_VALUES], struct proton_context where);
/* The range of a launch was lost: another launch is measured instead. */
void counter_kernels_lose(uint32_t kernel, uint32_t set);
/* A recorded launch at `where`, which was not measured. */
void counter_kernels_note_launch(uint32_t kernel, struct proton_context where);
/* Adds values to the profile. Launches of kernels without any are counted. */
void counter_kernels_flush(void);
/* Numbers for the profile's info. */
uint32_t counter_kernels_count(void);
uint32_t counter_kernels_measured(void);
/* With no session: forgets all kernels. */
void counter_kernels_clear(void);
