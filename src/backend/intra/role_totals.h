/*
 * Warp role totals: the warp analysis (intra/warps/segments.h) of sampled CTAs. These are up to 32
 * CTAs in each of the first eight launches of a kernel in a context, then in every 64th launch.
 * Results are added to the profile below the kernel; see model/warp_metrics.h.
 */
#pragma once

#include <stdatomic.h>

#include <libproton/proton.h>

#include "intra/warps/segments.h"

/* Of a kernel in a context, shared by all reader threads. */
struct role_totals {
	const struct instrument_layout *layout; /* of the kernel */
	struct warps_kinds kinds;
	struct proton_context warps; /* the frame <warps>, below the kernel */
	_Atomic uint64_t launches;
	/* Locked by who commits. */
	bool has_roles; /* found in the first launch that was analyzed, then constant */
	struct warps_roles roles;
	struct proton_context role_where[INSTRUMENT_UNIT_MAX];
};

/* One launch that a reader thread decodes, and its work space. All zero: unused. */
struct role_reading {
	struct role_totals *totals; /* NULL: no warp metrics */
	uint64_t stride; /* analyzes every `stride`-th CTA, beginning with `phase`; 0: none */
	uint64_t phase;
	struct warps_sums sums;
	struct warps warps;
	struct decoder exact; /* used if the other decoder subtracts record overhead */
};

/* `where` ends with the kernel, which owns `layout`. */
void role_totals_init(struct role_totals *totals, const struct instrument_layout *layout,
		      struct proton_context where);

/* Begins to decode a launch with `slots` CTAs. */
void role_reading_begin(struct role_reading *reading, struct role_totals *totals, uint64_t slots);
/* Adds the CTA in `slot`, which `decoder` decoded last from `bytes`. False if out of memory. */
bool role_reading_add(struct role_reading *reading, const struct decoder *decoder, uint64_t slot,
		      const void *bytes);
/*
 * The launch is complete, and `ctas` of its CTAs had records: adds the results to the profile. The
 * caller holds the lock.
 */
void role_reading_commit(struct role_reading *reading, uint64_t ctas);
void role_reading_fini(struct role_reading *reading);
