/*
 * Record decoder: turns the bytes of one CTA (layout.h) into executions of scopes, sorted by start,
 * each with its parent.
 *
 * The bytes are untrusted, because the device may have stopped at any time. Records that cannot be
 * decoded are counted, by scope or by warp, and never become executions. Decoding is linear in the
 * records except for one sort.
 */
#pragma once

#include "intra/layout.h"

#define DECODE_NONE UINT32_MAX
/* Maximum nesting; deeper executions are attributed to this depth. */
#define DECODE_DEPTH_MAX 64u

struct decode_execution {
	uint64_t start;    /* SM clock in cycles, 64 bits */
	uint64_t duration; /* cycles, without record overhead (struct decode_overhead) */
	uint32_t parent;   /* index of the parent execution, or DECODE_NONE */
	uint32_t sequence; /* index of its end among the unit's records */
	uint16_t scope;    /* index into the layout's scopes */
	uint8_t unit;      /* unit that recorded its start */
	uint8_t end_unit;  /* async event: the first unit that recorded its end; else the same */
	bool is_async;
	/* A lower bound: the start was overwritten, or the duration did not fit into the record. */
	bool is_partial;
};

static inline uint64_t decode_end_of(const struct decode_execution *execution)
{
	return execution->start + execution->duration;
}

/* A further end of an async event: another unit, or the same one again, recorded it too. */
struct decode_late_end {
	uint64_t clock;     /* not before the execution's end */
	uint32_t execution; /* index of the execution */
	uint8_t unit;
};

/* Executions of one sum in one unit. */
struct decode_sum {
	uint64_t count;
	uint64_t cycles; /* without record overhead */
	uint64_t min;    /* the shortest execution; UINT64_MAX: unknown, like max */
	uint64_t max;
	uint64_t starts; /* if they are counted */
	uint16_t parent; /* index of the sum around it, or INSTRUMENT_NO_SUM */
	bool is_partial; /* `cycles` is a lower bound */
};

struct decode_unit {
	bool is_there;                        /* the unit finished */
	uint8_t warp;                         /* first warp of the unit */
	struct instrument_unit_header header; /* with times of the global timer in ns */
	uint32_t dropped;                     /* records that were overwritten */
	uint32_t first;                       /* executions[first .. first + count) */
	uint32_t count;
};

/*
 * Record overhead, subtracted from durations and starts; 0, 0: none. In fractions of a cycle,
 * because a fraction adds up over the thousands of records in a loop.
 */
#define DECODE_CYCLE 16 /* fractions per cycle */
struct decode_overhead {
	int32_t empty; /* duration of an empty scope: the cost of a clock read */
	int32_t scope; /* cycles that a scope inside another one adds to it */
};

/* Sums over all CTAs since decoder_begin(). */
struct decode_totals {
	uint64_t ctas;       /* with at least one unit that finished */
	uint64_t units;      /* units that finished */
	uint64_t lost_units; /* units of those CTAs that did not finish */
	uint64_t lost_ctas;  /* without any unit that finished */
	uint64_t records;    /* records made, or executions counted */
	uint64_t damaged;    /* records that no kernel would write */
	uint64_t dropped;    /* overwritten records */
	/* overwritten records by first warp of the unit */
	uint64_t dropped_warp[INSTRUMENT_UNIT_MAX];
	uint64_t broken[INSTRUMENT_CODE_MAX + 1]; /* by scope: unpaired starts or ends */
	/*
	 * By scope: ends without a start because it was overwritten; of async events also starts
	 * without an end.
	 */
	uint64_t cut_by_drop[INSTRUMENT_CODE_MAX + 1];
	uint64_t partial[INSTRUMENT_CODE_MAX + 1]; /* by scope: executions with a known end only */
};

struct decoder {
	const struct instrument_layout *layout;
	struct decode_overhead overhead;
	struct decode_totals totals;
	uint64_t timer_khz; /* rate of the global timer */
	/* The CTA decoded last: */
	struct decode_unit units[INSTRUMENT_UNIT_MAX];
	struct decode_execution *executions;
	size_t execution_count;
	struct decode_late_end *late_ends; /* further ends, by scope and clock */
	size_t late_end_count;
	/* By unit and sum, if the layout has sums, and then there are no executions. */
	struct decode_sum *sums;
	size_t sum_capacity;
	/* Work space: */
	size_t late_end_capacity;
	size_t execution_capacity;
	struct decode_async_event *events;
	size_t event_count;
	size_t event_capacity;
	uint32_t *event_lists;
	size_t event_list_capacity;
	struct decode_end *ends;
	size_t end_capacity;
	struct decode_reading *readings;
	size_t reading_capacity;
};

/*
 * `layout` must outlive the decoder and come from layout_read() or the pass. timer_khz is set to
 * the default rate and may be changed afterwards.
 */
void decoder_init(struct decoder *decoder, const struct instrument_layout *layout,
		  struct decode_overhead overhead);
/* Switches to another layout and resets the totals; keeps the work space. */
void decoder_begin(struct decoder *decoder, const struct instrument_layout *layout,
		   struct decode_overhead overhead);
void decoder_fini(struct decoder *decoder);
/*
 * Decodes one CTA from its layout->cta_bytes bytes, of any alignment. False if out of memory. The
 * executions of one unit are consecutive, sorted by start, parents first. Executions of async
 * events come last, after all units, sorted by scope and start; they have no parent.
 *
 * If a ring buffer lost its oldest records, an END without a START belongs to a scope that was open
 * before the oldest remaining record. It becomes a partial execution that starts with that record,
 * so everything that ran inside stays inside.
 */
bool decode_cta(struct decoder *decoder, const void *bytes);

/* Prefetches bytes that will be decoded soon. */
void decode_prefetch(const struct instrument_layout *layout, const void *bytes);

/* Clock rate of the unit in MHz, or `fallback_mhz` if it ran too briefly to measure it. */
double decode_mhz(const struct instrument_layout *layout, const struct decode_unit *unit,
		  double fallback_mhz);
