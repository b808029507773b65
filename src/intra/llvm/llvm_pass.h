/*
 * LLVM IR instrumentation pass: replaces a kernel's markers with clock records, and adds the code
 * that initializes the ring buffers and copies them to global memory at kernel exit (layout.h).
 *
 * The input is the text that unmodified Triton passes to its code generator. A kernel without
 * markers is not changed.
 */
#ifndef INTRA_LLVM_LLVM_PASS_H
#define INTRA_LLVM_LLVM_PASS_H

#include "intra/layout.h"
#include "intra/llvm/ir_function.h"
#include "intra/llvm/sum_plan.h"

enum instrument_buffer {
	/* ring buffers in shared memory, copied to global memory at kernel exit */
	INSTRUMENT_BUFFER_SHARED,
	INSTRUMENT_BUFFER_GLOBAL, /* ring buffers in global memory */
};

/* Data that a warp keeps. */
enum instrument_tree {
	INSTRUMENT_TREE_RECORDS,
	INSTRUMENT_TREE_SUMS, /* if possible, else records */
	/* records if it is certain that few are made and all are kept; else sums */
	INSTRUMENT_TREE_AUTO,
};

struct instrument_options {
	const char *arch;    /* "sm_90", "gfx942"; used for AMD only */
	uint32_t warp_count; /* of a CTA, including those of partitions */
	uint32_t threads_per_warp;
	uint32_t parameter_count;      /* that the kernel must have; 0: unknown */
	uint32_t shared_bytes;         /* shared memory of the kernel before instrumentation */
	uint32_t shared_limit;         /* maximum per CTA on this device; 0: 48 KiB */
	uint32_t shared_per_processor; /* per SM; 0: the same as shared_limit */
	enum instrument_buffer buffer;
	/* all ring buffers of a CTA; 0: as much as does not reduce occupancy */
	uint32_t buffer_bytes;
	uint32_t warps_per_unit; /* granularity; 0 means 1; >= warp_count: one unit per CTA */
	uint64_t warps;          /* bit i: warp i is sampled; 0: all */
	uint32_t cta_stride;     /* every n-th CTA is sampled; 0 means 1 */
	bool sched_barriers;     /* AMD: nothing is scheduled across a record */
	enum instrument_tree tree;
	bool hoists;       /* vectorized additions move back between the markers; hoist.h */
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

#endif
