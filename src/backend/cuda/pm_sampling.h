/* PM sampling: counters of a whole GPU against time, whichever process uses it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Important ones first: each one is left out where a chip has no room. */
enum pm_column {
	PM_SM,     /* percent of the time in which SMs had a warp */
	PM_TENSOR, /* percent of the peak, as the following */
	PM_DRAM_READ,
	PM_DRAM_WRITE,
	PM_ISSUE, /* instructions */
	PM_WARPS,
	PM_L2,
	PM_PCIE_READ, /* bytes within the sample, as the following */
	PM_PCIE_WRITE,
	PM_NVLINK_READ,
	PM_NVLINK_WRITE,
	PM_GR, /* percent of the time in which the graphics and compute engine had work */
	PM_COLUMNS,
};

struct pm_sample {
	uint64_t start_ns; /* CLOCK_REALTIME, the clock of kernel records (measured: sd 0.14 us) */
	uint64_t end_ns;
	double values[PM_COLUMNS]; /* NaN: not sampled on this chip */
};

typedef void (*pm_sample_fn)(const struct pm_sample *sample, void *user);

struct pm_sampling;

/*
 * Begins to sample a GPU (CUDA's ordinal) at this interval. Needs cuInit(), but no context. The
 * caller closes `*out`. E_NOLIB, E_VERSION, E_PERMISSION, E_BUSY, E_IO with the reason.
 */
int pm_sampling_open(uint32_t device, uint64_t interval_ns, struct pm_sampling **out,
		     struct proton_error *err);
bool pm_sampling_has(const struct pm_sampling *pm, enum pm_column column);
/*
 * Passes the samples since the last call, in their order. Call it several times a second: the
 * hardware buffer has room for some seconds, and a full one takes no more (then `*lost_out` is
 * set).
 */
int pm_sampling_read(struct pm_sampling *pm, pm_sample_fn add, void *user, bool *lost_out,
		     struct proton_error *err);
/* Ends it; NULL is ignored. */
void pm_sampling_close(struct pm_sampling *pm);
