/*
 * Reading what an instrumented kernel wrote (layout.h): the bytes of one CTA become executions of
 * scopes, in the order in which they began, each with the one that it lies in.
 *
 * Bytes come from a device that may have been stopped anywhere, so nothing in them is trusted. What
 * cannot be understood is counted, by scope or by warp, and never becomes an execution. The work is
 * linear in the records, but for one sort.
 */
#ifndef INTRA_DECODE_DECODER_H
#define INTRA_DECODE_DECODER_H

#include "intra/layout.h"

#define DECODE_NONE UINT32_MAX
/* Nesting beyond this is shown as if it were at this depth. */
#define DECODE_DEPTH_MAX 64u

struct decode_execution {
	uint64_t start;    /* cycles of the multiprocessor's clock, 64 bits */
	uint64_t duration; /* cycles, without what the records themselves cost (decode_overhead) */
	uint32_t parent;   /* index of the execution it lies in, or DECODE_NONE */
	uint32_t sequence; /* of its end among the unit's records */
	uint16_t scope;    /* index into the layout's scopes */
	uint8_t unit;      /* whose record began it */
	uint8_t end_unit;  /* asynchronous work: who saw its end first; else the same */
	bool is_async;
	/* It took at least that long: its start was overwritten, or the duration did not fit. */
	bool is_partial;
};

static inline uint64_t decode_end_of(const struct decode_execution *execution)
{
	return execution->start + execution->duration;
}

/* A further end of asynchronous work: somebody else has seen it too, or the same unit once more. */
struct decode_further_end {
	uint64_t clock;     /* not before the end */
	uint32_t execution; /* its index */
	uint8_t unit;
};

struct decode_unit {
	bool is_there;      /* the unit ran and ended */
	uint8_t warp;       /* its first */
	uint32_t processor; /* as the header has it */
	uint32_t processor_high;
	uint64_t start_ns; /* the device's timer, ns */
	uint64_t end_ns;
	uint64_t start_clock;
	uint64_t end_clock;
	uint64_t finalize_cycles;
	uint32_t record_count; /* made by the kernel */
	uint32_t dropped;      /* of those, overwritten by later ones */
	uint32_t first;        /* executions[first .. first + count) */
	uint32_t count;
};

/*
 * What a record costs, taken out of durations and starts; 0, 0: nothing is. In parts of a cycle,
 * because what is a fraction for one record is not for the thousands of a loop.
 */
#define DECODE_CYCLE 16 /* parts */
struct decode_overhead {
	int32_t empty; /* what an empty scope measures: the cost of reading the clock */
	int32_t scope; /* by how much one inside, apart from others, makes a scope longer */
};

/* Summed over all CTAs that a decoder has seen since decoder_begin(). */
struct decode_totals {
	uint64_t ctas;                              /* with a unit at least */
	uint64_t units;                             /* that ran and ended */
	uint64_t lost_units;                        /* of those CTAs, that did not end */
	uint64_t lost_ctas;                         /* that left nothing */
	uint64_t records;                           /* made */
	uint64_t damaged;                           /* records that no kernel would have written */
	uint64_t dropped;                           /* records that were overwritten */
	uint64_t dropped_warp[INSTRUMENT_UNIT_MAX]; /* the same by first warp of the unit */
	uint64_t broken[INSTRUMENT_CODE_MAX + 1];   /* by scope: starts or ends without a pair */
	/* By scope: ends whose start was dropped; of asynchronous work also the other way round. */
	uint64_t cut_by_drop[INSTRUMENT_CODE_MAX + 1];
	uint64_t partial[INSTRUMENT_CODE_MAX + 1]; /* by scope: executions known by their end */
};

struct decoder {
	const struct instrument_layout *layout;
	struct decode_overhead cost;
	struct decode_totals totals;
	uint64_t timer_khz; /* of the device's timer */
	/* Of the CTA decoded last. */
	struct decode_unit units[INSTRUMENT_UNIT_MAX];
	struct decode_execution *executions;
	size_t execution_count;
	struct decode_further_end *sightings; /* by scope and by clock */
	size_t sighting_count;
	/* Work space. */
	size_t sighting_capacity;
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
 * `layout` must outlive the decoder and have come from layout_read() or the pass. The timer's rate
 * is the usual one, and may be set then.
 */
void decoder_init(struct decoder *decoder, const struct instrument_layout *layout,
		  struct decode_overhead cost);
/* From here on for another layout and with new totals; keeps the work space. */
void decoder_begin(struct decoder *decoder, const struct instrument_layout *layout,
		   struct decode_overhead cost);
void decoder_fini(struct decoder *decoder);
/*
 * Decodes one CTA from its layout->cta_bytes bytes, of any alignment. False when memory is out.
 * Executions of one unit follow each other, by start, what lies around others first; those of
 * asynchronous work come last, behind all units, by scope and by start, and have no parent.
 *
 * Where a ring has lost its oldest records, an END without a START is that of a scope that was open
 * before the oldest record that is left: a partial execution, which starts with that record, so
 * that everything which ran in it is still inside it.
 */
bool decode_cta(struct decoder *decoder, const void *bytes);

/* The same bytes will be decoded soon: asks for them from memory, where that is what costs. */
void decode_prefetch(const struct instrument_layout *layout, const void *bytes);

/* The device's timer at `clock` of the unit, in ns; `fallback_mhz` where it cannot be measured. */
double decode_mhz(const struct instrument_layout *layout, const struct decode_unit *unit,
		  double fallback_mhz);

#endif
