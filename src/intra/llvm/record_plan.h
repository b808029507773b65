/*
 * Record plan: which records are made of the markers, their positions in the group of their block,
 * and how many bytes of a ring buffer are used on entry to each block.
 *
 * A start and an end of one scope in one block become a single record with a duration: half the
 * stores and half the space. Markers without instructions between them share a clock read, except
 * where a scope would become empty.
 */
#pragma once

#include "intra/layout.h"
#include "intra/llvm/ir_function.h"

#define PLAN_NONE UINT32_MAX

struct plan_site {
	uint32_t clock; /* marker with the clock read it uses: itself or an earlier one */
	uint32_t start; /* INSTRUMENT_SCOPE: marker of its start; else PLAN_NONE */
	bool stores;    /* false: the scope's end stores the record */
	uint32_t scope;
	uint32_t block; /* that it is in */
	uint32_t code;
	uint32_t slot; /* index in the group of its block */
};

/* Definition of a value that the code of blocks or markers changes. */
enum value_origin {
	VALUE_UNREACHED, /* the block is unreachable */
	VALUE_CONSTANT,  /* `number` is the value */
	VALUE_PHI,  /* a phi in block `number`, or the caller or a call gives it to the block */
	VALUE_CODE, /* the code of block or marker `number` */
};

struct plan_value {
	enum value_origin origin;
	uint32_t number;
};

/* Instead of a maximum of bytes: not found yet; unknown at compile time. */
#define PLAN_UNREACHED (-1)
#define PLAN_VARIES (-2)

struct plan_block {
	uint32_t slot_count; /* records of the group */
	uint32_t first_predecessor;
	uint32_t predecessor_count; /* edges: a block may be listed twice */
};

struct plan {
	struct plan_site *sites;   /* one per marker */
	struct plan_block *blocks; /* one per block, and one for the function's end */
	uint32_t block_count;      /* including the function's end */
	uint32_t *predecessors;
	struct plan_value *used; /* by block: bytes used in the ring buffer on entry */
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
/* Sets max_bytes, after that is known of all callees. False if out of memory. */
bool plan_find_max(const struct ir_function *function, struct plan *plan,
		   const struct plan *callee_plans);
void plan_fini(struct plan *plan);

/*
 * Finds the values on entry to all blocks from `after`, which gives that at the end of a block. The
 * entry's, and the values of blocks to which a value is given, are set; the others are UNREACHED.
 */
void plan_solve(const struct plan *plan, struct plan_value *values,
		struct plan_value (*after)(const void *user, uint32_t block), const void *user);

/* True if a phi of the block defines its value on entry. */
static inline bool plan_is_phi(const struct plan *plan, struct plan_value value, uint32_t block)
{
	return value.origin == VALUE_PHI && value.number == block &&
	       plan->blocks[block].predecessor_count > 1;
}

/* Bytes used at the end of a block of `plan`. */
struct plan_value plan_used_after(const void *plan, uint32_t block);

/*
 * Adds the static nesting of scopes to `layout` (static_nesting.c). plans[0] is the kernel's plan,
 * the others are its callees'. If the analysis needs too many passes, the layout stays without.
 * False if out of memory.
 */
bool static_nesting(const struct ir_function *kernel, const struct plan *plans,
		    struct instrument_layout *layout);
/*
 * The innermost scope around `scope` that is ordered with all others around it: one contains the
 * other. INSTRUMENT_NO_SCOPE if there is none. `around[i]` are the scopes that contain scope i.
 */
uint16_t static_nesting_parent(const struct scope_set *around, uint32_t scope, uint32_t count);
