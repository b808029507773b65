/* Writing the instrumented text; the parts that differ by vendor are behind one table each. */
#ifndef INTRA_LLVM_EMIT_H
#define INTRA_LLVM_EMIT_H

#include "intra/llvm/llvm_pass.h"
#include "intra/llvm/record_plan.h"

struct emit {
	struct out *out;
	const struct ir_function *function; /* the kernel, or the callee that is being written */
	const struct plan *plan;            /* its plan */
	const struct plan *callee_plans;
	const struct instrument_layout *layout;
	const struct instrument_options *options;
	enum instrument_buffer buffer;
	uint32_t shared_at; /* where the units begin in shared memory, bytes */
	uint32_t warp_mask; /* bit i: warp i records */
};

/* A place in the warp's ring: a register that was made by group(), or the ring's beginning. */
struct emit_place {
	uint32_t block; /* PLAN_NONE: the ring's beginning */
	uint32_t offset_bytes;
};

struct emit_target {
	/* At the kernel's entry: who records, and where. */
	void (*entry)(const struct emit *emit);
	/* Defines "%proton.a.BLOCK", the address `used` bytes (a register) into the ring. */
	void (*group)(const struct emit *emit, uint32_t block, const char *used);
	/* Defines the marker's result as the low half of the clock. */
	void (*clock)(const struct emit *emit, const struct ir_marker *marker);
	/* Stores the registers `clock` and `word` (or numbers). */
	void (*store)(const struct emit *emit, struct emit_place place, uint32_t marker,
		      const char *clock, const char *word);
	/* Defines "%proton.i.BLOCK" as the use that a call brought: "%proton.given.BLOCK". */
	void (*given)(const struct emit *emit, uint32_t block);
	/* What entry() has defined and records need, as parameters or arguments: ", TYPE NAME". */
	void (*context)(const struct emit *emit);
	/* Behind the last block: from "proton.fin:", with `used` bytes, to "ret void". */
	void (*finish)(const struct emit *emit, const char *used, const char *phi);
	/* Functions that the above call; ended by NULL. */
	const char *const *declarations;
};

extern const struct emit_target emit_nvidia;
extern const struct emit_target emit_amd;

/* AMD: some waves do not record and write to a ring behind the others. */
static inline bool emit_has_spare(const struct emit *emit)
{
	return emit->function->is_amd &&
	       (emit->layout->unit_count < emit->options->warp_count ||
		(emit->buffer == INSTRUMENT_BUFFER_GLOBAL && emit->layout->cta_stride > 1));
}

/* The bytes of a ring with its slack. */
static inline uint32_t emit_ring_bytes(const struct emit *emit)
{
	return emit->layout->ring_bytes + emit->layout->slack_bytes;
}

/*
 * In shared memory before each ring: NVIDIA keeps what it writes of the header there, so that the
 * start's times wait and one copy carries all.
 */
static inline uint32_t emit_header_bytes(const struct emit *emit)
{
	return emit->function->is_amd ? 0 : offsetof(struct instrument_unit_header, processor_high);
}

/* What a unit has in shared memory. */
static inline uint32_t emit_shared_bytes(const struct emit *emit)
{
	return emit_header_bytes(emit) + emit_ring_bytes(emit);
}

/* The whole text with records instead of markers. */
void emit_text(const struct emit *emit, const struct emit_target *target);

#endif
