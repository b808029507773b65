/*
 * What the warps of a CTA did to each other: how long each of them worked, waited and had nothing
 * to do, what the CTA's critical path runs through, and how much of its asynchronous work was
 * overlapped. From one decoded CTA (decoder.h), whose units read one clock; sums over CTAs.
 *
 * Every unit's time is cut into segments, each with the innermost scope that was open, so that the
 * segments of a unit fill the CTA's time exactly. What is in a wait belongs to the wait. The
 * critical path goes back from the end of the CTA along the segments, by the rules of
 * critical_path.c. docs/design/intra-warps.md explains why it is defined so, and what it cannot
 * see.
 *
 * Where records were overwritten, what is looked at begins when all units' records are there.
 * Times must be those of the clock: the decoder's cost has to be 0, 0, because what is taken off in
 * one unit would move it against the others.
 */
#ifndef INTRA_WARPS_SEGMENTS_H
#define INTRA_WARPS_SEGMENTS_H

#include "intra/decode/decoder.h"

/* What a scope is, by its name: docs/guide/intra-kernel.md, "Warps". */
enum warps_kind {
	WARPS_WORK,
	WARPS_WAIT,     /* for a barrier: somebody else ends it */
	WARPS_WAIT_OWN, /* for what the warp has started itself: copies, dots, stores */
	WARPS_DEFAULT,  /* the partition of the warps that also run what is outside of partitions */
	WARPS_PARTITION /* of warps that run nothing else */
};

struct warps_kinds {
	uint8_t of[INSTRUMENT_CODE_MAX + 1]; /* enum warps_kind, by scope */
	bool is_async[INSTRUMENT_CODE_MAX + 1];
	bool has_waits;
	bool is_worth_it; /* there are waits, partitions or asynchronous work */
};

void warps_kinds_read(const struct instrument_layout *layout, struct warps_kinds *out);
static inline bool warps_is_wait(uint8_t kind)
{
	return kind == WARPS_WAIT || kind == WARPS_WAIT_OWN;
}

/* Of a unit and a scope, or of a unit outside of scopes. */
struct warps_cell {
	uint64_t executions;
	uint64_t inclusive; /* cycles, with what lies in it */
	uint64_t cycles;    /* in segments: without what lies in it, unless it is a wait */
	uint64_t path;      /* of these, on the critical path */
};

struct warps_async {
	uint64_t executions;
	uint64_t cycles;
	uint64_t overlapped; /* while the unit that saw its end first worked */
	uint64_t path;
};

struct warps_unit {
	uint64_t ctas;   /* in which it was there */
	uint64_t cycles; /* those of these CTAs: the sum of its cells and of `idle` */
	uint64_t idle;   /* before its first and behind its last instruction, ... */
	uint64_t path;   /* ... on the critical path: nobody did anything */
};

/* Everything adds up. */
struct warps_sums {
	uint64_t ctas;
	uint64_t cycles;   /* of the CTAs: the sum of all that is on the path */
	uint64_t unseen;   /* cycles of these CTAs whose records were overwritten */
	uint64_t left_out; /* CTAs of which there was too little */
	uint32_t unit_count;
	uint32_t scope_count;
	struct warps_unit units[INSTRUMENT_UNIT_MAX];
	struct warps_cell
		*cells; /* by unit, then by scope; the last of a unit: outside of scopes */
	struct warps_async *asyncs; /* by scope */
};

/* All zero. False when memory is out. */
bool warps_sums_init(struct warps_sums *sums, const struct instrument_layout *layout);
void warps_sums_fini(struct warps_sums *sums);
/* Both of the same layout. */
void warps_sums_add(struct warps_sums *sums, const struct warps_sums *more);
void warps_sums_clear(struct warps_sums *sums);

static inline struct warps_cell *warps_cell(const struct warps_sums *sums, uint32_t unit,
					    uint32_t scope)
{
	return &sums->cells[(size_t)unit * (sums->scope_count + 1) + scope];
}

/* A stretch of one unit's time. */
struct warps_segment {
	uint64_t start;
	uint64_t end;
	uint64_t busy_before; /* cycles that the unit worked before it */
	uint16_t scope;       /* scope_count: outside of scopes */
	uint8_t kind;         /* enum warps_kind */
	bool is_idle;
};

struct warps_interval {
	uint64_t end;
	uint64_t start;
	uint16_t scope;
};

/* Where a unit has seen that asynchronous work is over. */
struct warps_async_end {
	uint64_t clock;
	uint32_t execution;
	uint8_t unit;
	bool is_first; /* of those of that execution */
};

/* Work space, for one CTA after the other, of any kernels. All zero: nothing yet. */
struct warps {
	const struct decoder *decoder;
	const struct warps_kinds *kinds;
	uint64_t from; /* what is looked at of the CTA, on the multiprocessor's clock */
	uint64_t to;
	struct warps_segment *segments;
	size_t segment_count;
	size_t segment_capacity;
	uint32_t first[INSTRUMENT_UNIT_MAX + 1]; /* a unit's segments: [first[u], first[u + 1]) */
	uint64_t did[INSTRUMENT_UNIT_MAX][4];    /* scopes that it executed, or began or ended */
	struct warps_async_end *async_ends;      /* by unit and by clock */
	size_t async_end_count;
	size_t async_end_capacity;
	struct warps_interval *waits; /* of the unit that is being cut */
	size_t wait_count;
	size_t wait_capacity;
	struct warps_interval *open; /* scopes of that unit, the innermost last */
	size_t open_count;
	size_t open_capacity;
};

/* Adds the CTA that `decoder` has decoded last. False: out of memory. */
bool warps_add(struct warps *warps, const struct decoder *decoder, const struct warps_kinds *kinds,
	       struct warps_sums *sums);
void warps_fini(struct warps *warps);

/* True if two units did the same, as far as their scopes tell: then they have one role. */
static inline bool warps_did_same(const struct warps *warps, uint32_t a, uint32_t b)
{
	return memcmp(warps->did[a], warps->did[b], sizeof(warps->did[a])) == 0;
}

#endif
