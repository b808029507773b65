/* LLVM IR emitter: writes the instrumented text. One table of functions per vendor. */
#pragma once

#include "base/array.h"
#include "base/buf.h"
#include "intra/llvm/llvm_pass.h"
#include "intra/llvm/record_plan.h"

/* ------------------------------------------------------------------ templates */

/*
 * Templates are text with named placeholders such as `<ring>`. A placeholder consists of lower-case
 * letters, so vector types (`<2 x i32>`) are not placeholders.
 */
struct emit_value {
	const char *name; /* of the placeholder */
	struct slice text;
	int64_t number; /* if there is no text */
};

#define EMIT_TEXT(name, value)                                                                     \
	{                                                                                          \
		(name), {(value), strlen(value)}, 0                                                \
	}
#define EMIT_SLICE(name, value)                                                                    \
	{                                                                                          \
		(name), (value), 0                                                                 \
	}
#define EMIT_NUMBER(name, value)                                                                   \
	{                                                                                          \
		(name), {NULL, 0}, (int64_t)(value)                                                \
	}

/* Writes `text` with the values in place of the placeholders. Others are written unchanged. */
void emit_template(struct out *out, const char *text, const struct emit_value *values,
		   size_t count);

/* EMIT(out, "text", EMIT_TEXT("name", value), ...) */
#define EMIT(out, text, ...)                                                                       \
	emit_template(out, text, (const struct emit_value[]){__VA_ARGS__},                         \
		      sizeof((const struct emit_value[]){__VA_ARGS__}) /                           \
			      sizeof(struct emit_value))

/* ------------------------------------------------------------------ the emitter */

struct emit_target;

struct emit {
	struct out *out;
	const struct emit_target *target;
	const struct ir_function *function; /* the kernel, or the callee that is being written */
	const struct plan *plan;            /* of that function; the callees' follow the kernel's */
	const struct sum_plan *sums;        /* NULL: records */
	const struct instrument_layout *layout;
	const struct instrument_options *options;
	enum instrument_buffer buffer;
	uint32_t shared_at; /* offset of the units in shared memory, bytes */
	uint32_t warp_mask; /* bit i: warp i records */
};

/* An address in the warp's ring buffer: relative to the address from group(), or to the start. */
struct emit_address {
	uint32_t block; /* PLAN_NONE: relative to the start of the ring buffer */
	uint32_t offset_bytes;
};

struct emit_target {
	/* At kernel entry: which warps record, and where. */
	void (*entry)(const struct emit *emit);
	/*
	 * Defines "%proton.a.BLOCK", the address at offset `used` (an SSA value) in the
	 * ring buffer.
	 */
	void (*group)(const struct emit *emit, uint32_t block, const char *used);
	/* Defines the marker's result as the low half of the clock. */
	void (*clock)(const struct emit *emit, const struct ir_marker *marker);
	/* Stores the SSA values (or numbers) `clock` and `word`. */
	void (*store)(const struct emit *emit, struct emit_address address, uint32_t marker,
		      const char *clock, const char *word);
	/* Defines "%proton.i.BLOCK", the bytes used after a call, from "%proton.given.BLOCK". */
	void (*given)(const struct emit *emit, uint32_t block);
	/*
	 * Writes the values from entry() that records need, as parameters or arguments: ", TYPE
	 * NAME".
	 */
	void (*context)(const struct emit *emit);
	/* After "proton.fin:" and its phis, up to "ret void". The ring buffer has `used` bytes. */
	void (*finish)(const struct emit *emit, const char *used);
	/* declarations of the functions called by the above; NULL-terminated, or NULL */
	const char *const *declarations;
};

extern const struct emit_target emit_nvidia;
extern const struct emit_target emit_amd;

static inline bool emit_is_global(const struct emit *emit)
{
	return emit->buffer == INSTRUMENT_BUFFER_GLOBAL;
}

/* AMD: waves that do not record write to a spare ring buffer after the others. */
static inline bool emit_has_spare(const struct emit *emit)
{
	return emit->function->is_amd && (emit->layout->unit_count < emit->options->warp_count ||
					  (emit_is_global(emit) && emit->layout->cta_stride > 1));
}

/* Bytes of a ring buffer with its slack area. */
static inline uint32_t emit_ring_bytes(const struct emit *emit)
{
	return emit->layout->ring_bytes + emit->layout->slack_bytes;
}

/*
 * Bytes in shared memory before each ring buffer. NVIDIA keeps part of the header there: the start
 * times stay in shared memory until kernel exit, and one copy moves both.
 */
static inline uint32_t emit_header_bytes(const struct emit *emit)
{
	return emit->function->is_amd ? 0 : offsetof(struct instrument_unit_header, processor_high);
}

/* Bytes of a unit in shared memory. */
static inline uint32_t emit_shared_bytes(const struct emit *emit)
{
	return emit_header_bytes(emit) + emit_ring_bytes(emit);
}

/* The text of an SSA value, or a number. */
struct emit_operand {
	char text[40];
};

/* Word `word` of the sums at the function's end. */
struct emit_operand emit_sum_word(const struct emit *emit, uint32_t word);
/* Writes the whole text with records in place of markers. */
void emit_text(const struct emit *emit);
/* Checks the names in what was written. E_UNSUPPORTED with the name, E_NOMEM. */
int verify_names(const char *text, size_t length, struct proton_error *err);
