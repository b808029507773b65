/*
 * Record layout: what an instrumented kernel writes and where. Both the LLVM IR instrumentation
 * pass and the decoder rely on it. docs/format.md, "Records of instrumented kernels", describes the
 * same.
 *
 * Each sampled CTA has `cta_bytes` in the buffer that is the kernel's last parameter. They contain
 * one header per unit (a warp, or a group of warps whose first warp records), then one ring buffer
 * per unit. A record is two 32-bit words: the low half of the clock, and a code with a payload. A
 * ring buffer keeps the latest records. A group of records that is stored together never wraps;
 * instead it may extend past the end of the ring buffer into the slack area.
 *
 * A layout with sums has no records. The ring buffer then contains 32-bit words that each unit
 * stores at its end: first the cycles of each sum, then numbers of executions.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define INSTRUMENT_MAGIC 0x314f5250u /* "PRO1" */
#define INSTRUMENT_RECORD_BYTES 8u
#define INSTRUMENT_CTA_ALIGN 128u
#define INSTRUMENT_CODE_MAX 255u /* code 0: no record */
#define INSTRUMENT_UNIT_MAX 32u  /* warps of a CTA: at most 1024 threads, 32 or more in a warp */

/* Written by one lane of each unit. All zero if the unit did not finish. */
struct instrument_unit_header {
	uint32_t magic;           /* INSTRUMENT_MAGIC */
	uint32_t processor;       /* NVIDIA: %smid; AMD: the HW_ID register */
	uint32_t count;           /* records made, including overwritten ones */
	uint32_t finalize_cycles; /* from end_clock until this was stored */
	uint64_t start_ns;        /* global timer at kernel entry; AMD: ticks, 10 ns on gfx9 */
	uint64_t start_clock;     /* SM clock at the same moment, in cycles */
	uint64_t end_ns; /* the same two at kernel exit, before the copy to global memory */
	uint64_t end_clock;
	uint32_t processor_high; /* AMD: the XCC_ID register */
	uint32_t reserved[3];
};

_Static_assert(sizeof(struct instrument_unit_header) == 64, "layout");

struct instrument_record {
	uint32_t clock; /* low half of the clock, at the start of what is recorded */
	uint32_t word;  /* code << 24 | payload */
};

/*
 * The payload of INSTRUMENT_SCOPE is the duration in cycles; this value means: this long or longer.
 */
#define INSTRUMENT_DURATION_MAX 0xffffffu

enum instrument_kind {
	INSTRUMENT_SCOPE = 0, /* one execution of a scope: start and duration */
	INSTRUMENT_START = 1,
	INSTRUMENT_END = 2,
	INSTRUMENT_EVENT_START = 3, /* of an async event; another unit may record its end */
	INSTRUMENT_EVENT_END = 4,
};

struct instrument_code {
	uint16_t scope; /* index into the layout's scopes */
	uint16_t kind;  /* enum instrument_kind */
};

#define INSTRUMENT_NO_SCOPE UINT16_MAX
#define INSTRUMENT_SCOPE_WORDS ((INSTRUMENT_CODE_MAX + 63) / 64)

struct scope_set {
	uint64_t bits[INSTRUMENT_SCOPE_WORDS];
};

static inline void scope_set_add(struct scope_set *set, uint32_t scope)
{
	set->bits[scope / 64] |= 1ull << scope % 64;
}

static inline bool scope_set_has(const struct scope_set *set, uint32_t scope)
{
	return set->bits[scope / 64] >> scope % 64 & 1;
}

/* Nesting of a scope as known when the kernel is compiled (static_nesting.c). */
struct instrument_nesting {
	struct scope_set around; /* scopes that may be open at its start or end */
	/* innermost scope that is open at every start of this one, or INSTRUMENT_NO_SCOPE */
	uint16_t parent;
	bool is_known; /* if false, `parent` is INSTRUMENT_NO_SCOPE */
};

#define INSTRUMENT_SUM_MAX 255u
#define INSTRUMENT_NO_SUM UINT16_MAX
#define INSTRUMENT_SUM_ONE 16u /* the unit of the numbers of clock reads and records below */

/*
 * A scope at one position in the tree of scopes. Its executions in one unit never overlap. The
 * numbers are means over the places in the kernel.
 */
struct instrument_sum {
	uint16_t scope;
	uint16_t parent; /* index of the sum around it, which comes first; INSTRUMENT_NO_SUM */
	uint16_t
		start_reads; /* clock reads by a start; less than one if it shares an earlier one */
	uint16_t end_reads;
	uint16_t records_before; /* by other executions, after the shared clock read of a start */
	/*
	 * Word with the number of executions inside `parent`, or INSTRUMENT_NO_SUM if all are. If
	 * not all are, the parent is `parent`'s parent.
	 */
	uint16_t inside_word;
	/* words with the cycles of its shortest and longest execution, or INSTRUMENT_NO_SUM */
	uint16_t min_word;
	uint16_t max_word;
};

/*
 * The ends of a sum are the ends of all its counts: the value of a word, times a number. Starts are
 * counted only if their number may differ.
 */
struct instrument_sum_count {
	uint16_t sum;
	uint16_t word; /* index */
	uint16_t times;
	bool is_end;
};

struct instrument_layout {
	uint32_t unit_count;
	uint32_t warps_per_unit;
	uint32_t warp_count;  /* of the CTA */
	uint32_t ring_bytes;  /* a power of two */
	uint32_t slack_bytes; /* slack area after each ring buffer */
	uint32_t cta_bytes;   /* a multiple of INSTRUMENT_CTA_ALIGN */
	/* every n-th CTA records; its index in the buffer is its linear ID / n */
	uint32_t cta_stride;
	bool is_amd;
	uint8_t units[INSTRUMENT_UNIT_MAX]; /* first warp of each unit, ascending */
	uint32_t scope_count;
	char **scopes;                      /* names; owned */
	struct instrument_nesting *nesting; /* by scope; owned; NULL: unknown */
	char *warning; /* the compiler's, about the scopes; owned; NULL: none */
	uint32_t code_count;
	struct instrument_code codes[INSTRUMENT_CODE_MAX + 1]; /* codes start at 1 */
	uint32_t sum_count;                                    /* 0: records */
	struct instrument_sum *sums;                           /* owned */
	uint32_t sum_counts_count;
	struct instrument_sum_count *sum_counts; /* owned */
};

/* Offsets in the memory of one CTA, in bytes. */
static inline size_t layout_header_at(const struct instrument_layout *layout, uint32_t unit)
{
	return (size_t)unit * sizeof(struct instrument_unit_header);
}

static inline size_t layout_ring_at(const struct instrument_layout *layout, uint32_t unit)
{
	return (size_t)layout->unit_count * sizeof(struct instrument_unit_header) +
	       (size_t)unit * (layout->ring_bytes + layout->slack_bytes);
}

/*
 * A launch requests this for each of its CTAs, though only every n-th has memory. A request has
 * layout_alignment() too, for the last of them: the allocator knows neither kernel nor grid.
 */
static inline uint32_t layout_requested(const struct instrument_layout *layout)
{
	return (layout->cta_bytes + layout->cta_stride - 1) / layout->cta_stride;
}

/* The alignment that a launch requests; above INSTRUMENT_CTA_ALIGN it only says `cta_bytes`. */
static inline uint32_t layout_alignment(const struct instrument_layout *layout)
{
	uint32_t alignment = INSTRUMENT_CTA_ALIGN;

	while (layout->cta_stride > 1 && alignment < layout->cta_bytes && alignment < 1u << 31)
		alignment *= 2;
	return alignment;
}

/*
 * Index of scope `name`, which is added if new; UINT32_MAX if out of memory or there are too many
 * scopes.
 */
uint32_t layout_scope(struct instrument_layout *layout, const char *name, size_t length);
/* Code of (scope, kind), which is added if new; 0 if there are too many codes. */
uint32_t layout_code(struct instrument_layout *layout, uint32_t scope, enum instrument_kind kind);
/* Adds a sum. False if out of memory or there are too many. */
bool layout_sum(struct instrument_layout *layout, uint16_t scope, uint16_t parent);
/* One more start or end of the sum per unit of the word. False if out of memory. */
bool layout_sum_count(struct instrument_layout *layout, uint32_t sum, uint32_t word, bool is_end);
void layout_drop_sums(struct instrument_layout *layout);
/* Nesting of all scopes, initially unknown. NULL if out of memory. */
struct instrument_nesting *layout_nesting(struct instrument_layout *layout);
void layout_fini(struct instrument_layout *layout);

/* True if scope `outer` may be open at a start or an end of `inner`, or if that is unknown. */
static inline bool layout_may_contain(const struct instrument_layout *layout, uint32_t outer,
				      uint32_t inner)
{
	const struct instrument_nesting *nesting = layout->nesting;

	return !nesting || !nesting[inner].is_known || scope_set_has(&nesting[inner].around, outer);
}

/*
 * Writes the layout as text for the kernel's metadata: one "key value..." per line. A name is last
 * on its line; its only escapes are
 * and \\.
 */
void layout_write(const struct instrument_layout *layout, struct out *out);
/* Reads that text. E_FORMAT for anything that layout_write() does not write. */
int layout_read(const char *text, size_t length, struct instrument_layout *layout,
		struct proton_error *err);
