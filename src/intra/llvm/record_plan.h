/*
 * What is to be recorded where: markers paired to records, records placed in their block's group,
 * and how much of a ring has been used on entry to each block.
 *
 * A start and an end of one scope in one block become a single record with a duration: half the
 * stores and half the room. Markers with nothing between them share a reading of the clock, except
 * where a scope would become empty that way.
 */
#ifndef INTRA_LLVM_RECORD_PLAN_H
#define INTRA_LLVM_RECORD_PLAN_H

#include "intra/layout.h"
#include "intra/llvm/ir_function.h"

#define PLAN_NONE UINT32_MAX

struct plan_site {
	uint32_t clock; /* marker whose reading it uses: itself or one before it */
	uint32_t start; /* INSTRUMENT_SCOPE: the marker of its start; else PLAN_NONE */
	bool stores;    /* false: its reading is used by the scope's end */
	uint32_t scope;
	uint32_t code;
	uint32_t slot; /* in the group of its block */
};

/* Bytes of a ring used so far. */
#define PLAN_UNREACHED (-1)
#define PLAN_VARIES (-2)

struct plan_block {
	uint32_t slot_count; /* records of the group */
	int64_t used;        /* on entry: bytes, or PLAN_... */
	uint32_t first_predecessor;
	uint32_t predecessor_count; /* edges: a block may be there twice */
	uint32_t source; /* VARIES: the block whose phi or addition holds the value on entry */
	bool has_phi;    /* the value on entry is a phi of this block */
	bool is_given;   /* it comes from the caller, or out of a call */
};

struct plan {
	struct plan_site *sites;   /* one per marker */
	struct plan_block *blocks; /* one per block, and one more for the end of the function */
	uint32_t *predecessors;
	uint32_t record_count;
	uint32_t group_max; /* most slots of any block */
	int64_t most_bytes; /* that a warp can record on any way; PLAN_VARIES: not known */
};

#define PLAN_MOST_MAX ((int64_t)1 << 40)

/*
 * Of the kernel or of a callee. Adds the scopes and codes to `layout`. Where there are callees
 * most_bytes is not there yet. E_UNSUPPORTED, E_NOMEM.
 */
int plan_make(const struct ir_function *function, struct instrument_layout *layout,
	      struct plan *plan, struct proton_error *err);
/* Finds most_bytes, when it is known of all callees that the function calls. False: no memory. */
bool plan_find_most(const struct ir_function *function, struct plan *plan,
		    const struct plan *callee_plans);
void plan_fini(struct plan *plan);

/* Bytes used on leaving `block`, or PLAN_VARIES. */
static inline int64_t plan_used_after(const struct plan *plan, uint32_t block)
{
	const struct plan_block *b = &plan->blocks[block];

	if (b->used == PLAN_VARIES)
		return PLAN_VARIES;
	return (b->used < 0 ? 0 : b->used) + (int64_t)b->slot_count * INSTRUMENT_RECORD_BYTES;
}

#endif
