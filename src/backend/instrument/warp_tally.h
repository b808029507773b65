/*
 * What the warps of a kernel did to each other (instrument/warps.h), of some of its CTAs: of up to
 * 32 in each of the first eight launches in a context, then in every 64th. Told to the profile
 * below the kernel, see model/warp_metrics.h.
 */
#ifndef BACKEND_INSTRUMENT_WARP_TALLY_H
#define BACKEND_INSTRUMENT_WARP_TALLY_H

#include "backend/instrument/kernels.h"
#include "instrument/warps.h"

struct warp_tally;

/* One launch that a thread decodes, and its work space. All zero: none yet. */
struct warp_reading {
	struct warp_tally *tally; /* of the kernel in its context; NULL: nothing to be said */
	bool is_looked_at;
	uint64_t stride; /* every so many CTAs, from `phase` on */
	uint64_t phase;
	const struct kernel *kernel; /* of `sums` */
	struct warps_sums sums;
	struct warps warps;
	struct decoder exact; /* where the other one takes the cost of records off */
};

/* A launch of `slots` CTAs begins to be decoded. */
void warp_reading_begin(struct warp_reading *reading, const struct kernel *kernel,
			struct proton_context where, uint64_t slots);
/* The CTA in `slot`, which `decoder` has decoded last from `bytes`. False: out of memory. */
bool warp_reading_add(struct warp_reading *reading, const struct decoder *decoder, uint64_t slot,
		      const void *bytes);
/* The launch is complete, `ctas` of it had records: tells the profile. */
void warp_reading_commit(struct warp_reading *reading, uint64_t ctas);
void warp_reading_fini(struct warp_reading *reading);

/* A run has ended, and every reading with it. */
void warp_tallies_clear(void);
/* In the child of a fork. */
void warp_tallies_forget(void);

#endif
