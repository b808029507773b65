/*
 * Record plan: which records are made of the markers, their positions in the group of their block,
 * and how many bytes of a ring buffer are used on entry to each block.
 *
 * A start and an end of one scope in one block become a single record with a duration: half the
 * stores and half the space. Markers without instructions between them share a clock read, except
 * where a scope would become empty.
 */
#ifndef INTRA_LLVM_RECORD_PLAN_H
#define INTRA_LLVM_RECORD_PLAN_H

#include "intra/layout.h"
#include "intra/llvm/ir_function.h"

#define PLAN_NONE UINT32_MAX

struct plan_site {
	uint32_t clock; /* marker with the clock read it uses: itself or an earlier one */
	uint32_t start; /* INSTRUMENT_SCOPE: marker of its start; else PLAN_NONE */
	bool stores;    /* false: the scope's end stores the record */
	uint32_t scope;
	uint32_t code;
	uint32_t slot; /* index in the group of its block */
};

/*
 * Bytes used in a ring buffer. UNREACHED: the block is unreachable; VARIES: unknown at compile
 * time.
 */
#define PLAN_UNREACHED (-1)
#define PLAN_VARIES (-2)

struct plan_block {
	uint32_t slot_count; /* records of the group */
	int64_t used;        /* on entry: bytes, or PLAN_UNREACHED or PLAN_VARIES */
	uint32_t first_predecessor;
	uint32_t predecessor_count; /* edges: a block may be listed twice */
	/* if VARIES: the block with the phi or addition that defines the value on entry */
	uint32_t source;
	bool has_phi;  /* a phi of this block defines the value on entry */
	bool is_given; /* the value on entry comes from the caller or from a call */
};

struct plan {
	struct plan_site *sites;   /* one per marker */
	struct plan_block *blocks; /* one per block, and one for the function's end */
	uint32_t *predecessors;
	uint32_t record_count;
	uint32_t group_max; /* maximum slots of any block */
	int64_t max_bytes;  /* maximum bytes that a warp can record on any path, or PLAN_VARIES */
};

/*
 * Plans the kernel or a callee. Adds the scopes and codes to `layout`. If there are callees,
 * max_bytes is not set yet. E_UNSUPPORTED, E_NOMEM.
 */
int plan_make(const struct ir_function *function, struct instrument_layout *layout,
	      struct plan *plan, struct proton_error *err);
/* Sets max_bytes after those of all callees are known. False if out of memory. */
bool plan_find_max(const struct ir_function *function, struct plan *plan,
		   const struct plan *callee_plans);
void plan_fini(struct plan *plan);

/* Bytes used at the end of `block`, or PLAN_VARIES. */
static inline int64_t plan_used_after(const struct plan *plan, uint32_t block)
{
	const struct plan_block *b = &plan->blocks[block];

	if (b->used == PLAN_VARIES)
		return PLAN_VARIES;
	return (b->used < 0 ? 0 : b->used) + (int64_t)b->slot_count * INSTRUMENT_RECORD_BYTES;
}

#endif
