/*
 * What an instrumented kernel writes, and where: the contract between the code that a pass adds to
 * a kernel and the decoder. docs/format.md, "Records of instrumented kernels", describes the same.
 *
 * Every sampled CTA has `cta_bytes` in the buffer that is the kernel's last parameter: one header
 * per unit (a warp, or a group of warps of which the first records), then one ring per unit. A
 * record is two 32-bit words: the low half of the clock, and a code with a payload. Rings hold the
 * latest records; a group of records that is stored together never wraps inside: it may run over
 * the end of the ring into the slack behind it.
 */
#ifndef INTRA_LAYOUT_H
#define INTRA_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define INSTRUMENT_MAGIC 0x314f5250u /* "PRO1" */
#define INSTRUMENT_RECORD_BYTES 8u
#define INSTRUMENT_CODE_MAX 255u /* code 0 means: nothing was recorded here */
#define INSTRUMENT_UNIT_MAX 32u  /* warps of a CTA: at most 1024 threads, 32 or more in a warp */

/* Written by one lane of each unit; 64 bytes. All zero where the unit never ended. */
struct instrument_unit_header {
	uint32_t magic;           /* INSTRUMENT_MAGIC */
	uint32_t processor;       /* NVIDIA: %smid; AMD: the HW_ID register */
	uint32_t count;           /* records made, those overwritten too */
	uint32_t finalize_cycles; /* from end_clock until this was stored */
	uint64_t start_ns;        /* device-wide timer at the entry; AMD: ticks, 10 ns on gfx9 */
	uint64_t start_clock;     /* the multiprocessor's clock at the same moment, in cycles */
	uint64_t end_ns;          /* the same two at the kernel's end, before the copy */
	uint64_t end_clock;
	uint32_t processor_high; /* AMD: the XCC_ID register */
	uint32_t reserved[3];
};

_Static_assert(sizeof(struct instrument_unit_header) == 64, "layout");

struct instrument_record {
	uint32_t clock; /* low half, at the start of what the record says */
	uint32_t word;  /* code << 24 | payload */
};

/* The payload of INSTRUMENT_SCOPE is its duration in cycles; this one means: as long or longer. */
#define INSTRUMENT_DURATION_MAX 0xffffffu

enum instrument_kind {
	INSTRUMENT_SCOPE = 0, /* a whole execution of a scope: start and duration */
	INSTRUMENT_START = 1,
	INSTRUMENT_END = 2,
	INSTRUMENT_EVENT_START = 3, /* asynchronous: may be ended by another unit */
	INSTRUMENT_EVENT_END = 4,
};

struct instrument_code {
	uint16_t scope; /* index into the layout's scopes */
	uint16_t kind;  /* enum instrument_kind */
};

#define INSTRUMENT_NO_SCOPE UINT16_MAX
#define INSTRUMENT_SCOPE_WORDS ((INSTRUMENT_CODE_MAX + 63) / 64) /* of a set of scopes */

/* How a scope nests, as far as that is known when the kernel is compiled (static_nesting.h). */
struct instrument_nesting {
	uint64_t around[INSTRUMENT_SCOPE_WORDS]; /* scopes that may be open at its start or end */
	uint16_t parent; /* the innermost that always is, at its start; INSTRUMENT_NO_SCOPE */
	bool is_known;   /* false: nothing is, and `parent` is INSTRUMENT_NO_SCOPE */
};

struct instrument_layout {
	uint32_t unit_count;
	uint32_t warps_per_unit;
	uint32_t warp_count;  /* of the CTA */
	uint32_t ring_bytes;  /* a power of two */
	uint32_t slack_bytes; /* behind each ring */
	uint32_t cta_bytes;   /* a multiple of 128 */
	uint32_t cta_stride;  /* every n-th CTA records; its place is its linear id / n */
	bool is_amd;
	uint8_t units[INSTRUMENT_UNIT_MAX]; /* the first warp of each, ascending */
	uint32_t scope_count;
	char **scopes;                      /* names, owned */
	struct instrument_nesting *nesting; /* by scope, owned; NULL: nothing is known */
	uint32_t code_count;
	struct instrument_code codes[INSTRUMENT_CODE_MAX + 1]; /* from 1 on */
};

/* Where things are in the memory of one CTA, in bytes. */
static inline size_t layout_header_at(const struct instrument_layout *layout, uint32_t unit)
{
	(void)layout;
	return (size_t)unit * sizeof(struct instrument_unit_header);
}

static inline size_t layout_ring_at(const struct instrument_layout *layout, uint32_t unit)
{
	return (size_t)layout->unit_count * sizeof(struct instrument_unit_header) +
	       (size_t)unit * (layout->ring_bytes + layout->slack_bytes);
}

/* The index of scope `name`, added if new; UINT32_MAX when memory is out or there are too many. */
uint32_t layout_scope(struct instrument_layout *layout, const char *name, size_t length);
/* The code of (scope, kind), added if new; 0 when there are too many. */
uint32_t layout_code(struct instrument_layout *layout, uint32_t scope, enum instrument_kind kind);
/* What is known of how scopes nest, which is nothing at first. NULL when memory is out. */
struct instrument_nesting *layout_nesting(struct instrument_layout *layout);
void layout_fini(struct instrument_layout *layout);

/* True if scope `outer` may be open at a start or an end of `inner`, as far as is known. */
static inline bool layout_may_contain(const struct instrument_layout *layout, uint32_t outer,
				      uint32_t inner)
{
	const struct instrument_nesting *nesting = layout->nesting;

	return !nesting || !nesting[inner].is_known ||
	       (nesting[inner].around[outer / 64] >> outer % 64 & 1);
}

/*
 * The layout as text that travels in the kernel's metadata: one "key value..." per line, names
 * last on their line with no escapes but \n and \\.
 */
void layout_write(const struct instrument_layout *layout, struct out *out);
/* The reverse; refuses what no pass would have written. E_FORMAT. */
int layout_read(const char *text, size_t length, struct instrument_layout *layout,
		struct proton_error *err);

#endif
