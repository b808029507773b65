/*
 * Modes of the backend: `pcsampling[:interval=CYCLES][:windows=LENGTH/DISTANCE][:serialized]`,
 * `default:windows=LENGTH/DISTANCE[:memory=SIZE][:overhead=PERCENT%]`,
 * `default:counters=roofline[:overhead=PERCENT%]`, or "" for none of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define PCS_PERIOD_MIN 5u
#define PCS_PERIOD_MAX 31u
#define PCS_PERIOD_DEFAULT 14u
/* Up to this period, a full GPU gives more samples than CUPTI can decode. */
#define PCS_PERIOD_DENSE 12u

struct window_times {
	uint64_t length_ns;   /* 0: there are no windows, always */
	uint64_t distance_ns; /* from one to the next */
};

struct pcs_mode {
	uint32_t period;    /* log2 of the cycles between two samples of an SM */
	bool is_serialized; /* kernels run one by one, samples have their launch */
	bool has_interval;  /* the user chose the period */
	struct window_times windows;
};

struct windows_mode {
	struct window_times times;
	uint64_t memory_bytes; /* GPU memory that attaching may keep */
	double overhead;       /* the share of the time that windows may cost */
};

struct cuda_mode {
	bool samples; /* PCs */
	struct pcs_mode sampling;
	bool in_windows; /* kernels */
	struct windows_mode windows;
	bool counts;              /* operations and bytes, with hardware counters */
	double counters_overhead; /* the share of the time that they may cost */
};

/* E_INVALID: not a mode of the backend, or it has another option or value. */
int cuda_mode_read(const char *mode, struct cuda_mode *out, struct proton_error *err);
