/*
 * LLVM IR instrumentation pass: replaces a kernel's markers with clock records, and adds the code
 * that initializes the ring buffers and copies them to global memory at kernel exit (layout.h).
 *
 * The input is the text that unmodified Triton passes to its code generator. A kernel without
 * markers is not changed.
 */
#pragma once

#include "intra/layout.h"
#include "intra/llvm/ir_function.h"
#include "intra/llvm/sum_plan.h"
#include "intra/mode.h"

struct instrument_options {
	const char *arch;    /* "sm_90", "gfx942"; used for AMD only */
	uint32_t warp_count; /* of a CTA, with partitions */
	uint32_t threads_per_warp;
	uint32_t parameter_count;      /* that the kernel must have; 0: unknown */
	uint32_t shared_bytes;         /* shared memory of the kernel before instrumentation */
	uint32_t shared_limit;         /* maximum per CTA on this device; 0: 48 KiB */
	uint32_t shared_per_processor; /* per SM; 0: the same as shared_limit */
	struct instrument_mode mode;   /* buffers and what is sampled; all zero: the default */
	bool hoists;       /* vectorized additions move back between the markers; hoist.c */
	bool has_extremes; /* sums have the shortest and the longest execution */
};

struct instrument_result {
	struct instrument_layout layout;
	char *text; /* malloc'd, terminated; NULL: no markers, the text is unchanged */
	size_t length;
	uint32_t shared_bytes; /* shared memory of the instrumented kernel */
	bool holds_all;        /* a ring buffer is never overwritten */
	bool can_hoist;        /* with `hoists`, the text would be or is another one */
	uint32_t record_count; /* number of places in the text that record */
	/* markers that stay comments: unknown ones, and those in functions without records */
	uint32_t ignored_markers;
	char ignored_reason[IR_REASON_MAX];  /* an error message, or empty */
	char records_reason[SUM_REASON_MAX]; /* why it has records, although sums were requested */
	/* may be global although shared was requested, if there is not enough space */
	enum instrument_buffer buffer;
};

/*
 * E_UNSUPPORTED with an error message if the kernel cannot be instrumented and should be compiled
 * without records. E_INVALID for invalid options. The caller releases the result with
 * instrument_result_fini().
 */
int instrument_llvm(const char *text, size_t length, const struct instrument_options *options,
		    struct instrument_result *out, struct proton_error *err);
void instrument_result_fini(struct instrument_result *result);
