/*
 * Warp analysis of one CTA: busy, waiting and idle time per warp, the critical path, and the
 * overlap of asynchronous operations. The input is a decoded CTA (decoder.h), whose units share one
 * clock; the results are sums over CTAs.
 *
 * The time of each unit is cut into segments with the innermost open scope, which fill the CTA's
 * time exactly. Everything inside a wait belongs to the wait. The critical path goes back from the
 * end of the CTA along the segments by the rules of critical_path.c. docs/design/intra-warps.md
 * gives the reasons for this definition and its limits.
 *
 * If records were overwritten, the analyzed time begins when the records of all units are complete.
 * The decoder's overhead must be 0, 0: subtracting it would shift the units' clocks against each
 * other.
 */
#pragma once

#include "intra/decode/decoder.h"

/* Kind of a scope, by its name: docs/guide/intra-kernel.md, "Warps". */
enum warps_kind {
	WARPS_WORK,
	WARPS_WAIT,     /* for a barrier: another unit ends it */
	WARPS_WAIT_OWN, /* for work that the warp itself has started: copies, dots, stores */
	WARPS_DEFAULT,  /* partition of the warps that also run the code outside partitions */
	WARPS_PARTITION /* partition of warps that run nothing else */
};

struct warps_kinds {
	uint8_t of[INSTRUMENT_CODE_MAX + 1]; /* enum warps_kind, by scope */
	bool is_async[INSTRUMENT_CODE_MAX + 1];
	bool has_waits;
	bool is_worth_it; /* there are waits, partitions or async events */
};

void warps_kinds_read(const struct instrument_layout *layout, struct warps_kinds *out);
static inline bool warps_is_wait(uint8_t kind)
{
	return kind == WARPS_WAIT || kind == WARPS_WAIT_OWN;
}

/* Sums of a scope in a unit, or of a unit's time outside scopes. */
struct warps_cell {
	uint64_t executions;
	uint64_t inclusive; /* cycles including inner scopes */
	uint64_t cycles;    /* cycles of its segments: without inner scopes, except for a wait */
	uint64_t path;      /* of these cycles, those on the critical path */
};

struct warps_async {
	uint64_t executions;
	uint64_t cycles;
	uint64_t overlapped; /* cycles during which the unit that saw the end first was working */
	uint64_t path;
};

struct warps_unit {
	uint64_t ctas;   /* CTAs in which the unit finished */
	uint64_t cycles; /* duration of those CTAs: the sum of the unit's cells and of `idle` */
	uint64_t idle;   /* before its first and after its last instruction */
	uint64_t path;   /* of these, on the critical path: no unit was active */
};

/* Sums over CTAs. */
struct warps_sums {
	uint64_t ctas;
	uint64_t cycles;   /* duration of the CTAs: the sum of all time on the path */
	uint64_t unseen;   /* cycles of these CTAs whose records were overwritten */
	uint64_t left_out; /* CTAs with too few records */
	uint32_t unit_count;
	uint32_t scope_count;
	struct warps_unit units[INSTRUMENT_UNIT_MAX];
	/* by unit, then by scope; the last of each unit: outside scopes */
	struct warps_cell *cells;
	struct warps_async *asyncs; /* by scope */
};

/* Initializes all sums to zero. False if out of memory. */
bool warps_sums_init(struct warps_sums *sums, const struct instrument_layout *layout);
void warps_sums_fini(struct warps_sums *sums);

static inline struct warps_cell *warps_cell(const struct warps_sums *sums, uint32_t unit,
					    uint32_t scope)
{
	return &sums->cells[(size_t)unit * (sums->scope_count + 1) + scope];
}

/* An interval of one unit's time with one scope. */
struct warps_segment {
	uint64_t start;
	uint64_t end;
	uint64_t busy_before; /* cycles that the unit worked before this segment */
	uint16_t scope;       /* scope_count: outside scopes */
	uint8_t kind;         /* enum warps_kind */
	bool is_idle;
};

struct warps_interval {
	uint64_t end;
	uint64_t start;
	uint16_t scope;
};

/* When a unit recorded the end of an async event. */
struct warps_async_end {
	uint64_t clock;
	uint32_t execution;
	uint8_t unit;
	bool is_first; /* first end of this execution */
};

/* Work space, reused for CTAs of any kernels. All zero: empty. */
struct warps {
	const struct decoder *decoder;
	const struct warps_kinds *kinds;
	uint64_t from; /* analyzed time of the CTA, in SM clock cycles */
	uint64_t to;
	struct warps_segment *segments;
	size_t segment_count;
	size_t segment_capacity;
	uint32_t first[INSTRUMENT_UNIT_MAX + 1];   /* a unit's segments: [first[u], first[u + 1]) */
	struct scope_set did[INSTRUMENT_UNIT_MAX]; /* scopes that it executed, started or ended */
	struct warps_async_end *async_ends;        /* by unit and by clock */
	size_t async_end_count;
	size_t async_end_capacity;
	struct warps_interval *waits; /* of the current unit */
	size_t wait_count;
	struct warps_interval *open; /* open scopes of that unit, innermost last */
	size_t open_count;
};

/* Adds a CTA with sums instead of records: nothing is on the critical path. */
void warps_add_sums(const struct warps *warps, struct warps_sums *sums);
/*
 * Adds the cycles of everything on the critical path of the CTA that was cut into segments; their
 * sum is the time from warps->from to warps->to.
 */
void warps_critical_path(struct warps *warps, struct warps_sums *sums);
/* Adds the CTA that `decoder` decoded last. False if out of memory. */
bool warps_add(struct warps *warps, const struct decoder *decoder, const struct warps_kinds *kinds,
	       struct warps_sums *sums);
void warps_fini(struct warps *warps);

/* True if two units have records of the same scopes, so they have one role. */
static inline bool warps_did_same(const struct warps *warps, uint32_t a, uint32_t b)
{
	return memcmp(&warps->did[a], &warps->did[b], sizeof(warps->did[a])) == 0;
}

/*
 * Warp roles: which units of a kernel do the same job. Units of one partition have one role,
 * otherwise units that execute the same scopes. The compiler assigns work by warp number, so roles
 * are the same in all CTAs.
 */

#define WARPS_NO_ROLE UINT8_MAX

struct warps_roles {
	uint32_t count;
	uint8_t of[INSTRUMENT_UNIT_MAX];     /* WARPS_NO_ROLE: the unit never finished */
	uint32_t scope[INSTRUMENT_UNIT_MAX]; /* by role: a scope only it has, or DECODE_NONE */
};

void warps_roles_find(const struct warps_sums *sums, const struct warps_kinds *kinds,
		      struct warps_roles *out);
/* "partition0@mm.py:12 (warps 4-7)", "warp 0" */
void warps_role_name(const struct warps_roles *roles, const struct instrument_layout *layout,
		     uint32_t role, struct out *out);
