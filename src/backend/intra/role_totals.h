/*
 * What the warps of a kernel did to each other (intra/warps/segments.h), of some of its CTAs: of up
 * to 32 in each of the first eight launches in a context, then in every 64th. Told to the profile
 * below the kernel, see model/warp_metrics.h.
 */
#ifndef BACKEND_INTRA_ROLE_TOTALS_H
#define BACKEND_INTRA_ROLE_TOTALS_H

#include <stdatomic.h>

#include <libproton/proton.h>

#include "intra/warps/segments.h"
#include "intra/warps/warp_roles.h"

/* Of a kernel in a context, for all threads. */
struct role_totals {
	const struct instrument_layout *layout; /* of the kernel */
	struct warps_kinds kinds;
	struct proton_context warps; /* <warps>, below the kernel */
	_Atomic uint64_t launches;
	/* Locked by who commits. */
	bool has_roles; /* found in the first launch that was looked at, and kept */
	struct warps_roles roles;
	struct proton_context role_where[INSTRUMENT_UNIT_MAX];
};

/* One launch that a thread decodes, and its work space. All zero: none yet. */
struct role_reading {
	struct role_totals *totals; /* NULL: nothing to be said */
	bool is_looked_at;
	uint64_t stride; /* every so many CTAs, from `phase` on */
	uint64_t phase;
	const struct instrument_layout *layout; /* of `sums` */
	struct warps_sums sums;
	struct warps warps;
	struct decoder exact; /* where the other one takes the cost of records off */
};

/* `where` ends with the kernel, of which `layout` is and stays. */
void role_totals_init(struct role_totals *totals, const struct instrument_layout *layout,
		      struct proton_context where);

/* A launch of `slots` CTAs begins to be decoded. */
void role_reading_begin(struct role_reading *reading, struct role_totals *totals, uint64_t slots);
/* The CTA in `slot`, which `decoder` has decoded last from `bytes`. False: out of memory. */
bool role_reading_add(struct role_reading *reading, const struct decoder *decoder, uint64_t slot,
		      const void *bytes);
/* The launch is complete, `ctas` of it had records: tells the profile. The totals is locked. */
void role_reading_commit(struct role_reading *reading, uint64_t ctas);
void role_reading_fini(struct role_reading *reading);

#endif
