/*
 * The pass over LLVM IR text: turns the markers of a kernel into records of the clock, and adds
 * what sets the buffers up and carries them to global memory at the end (see layout.h).
 *
 * The text is what stock Triton hands to its code generator. A kernel without markers comes back
 * as it is.
 */
#ifndef INTRA_LLVM_LLVM_PASS_H
#define INTRA_LLVM_LLVM_PASS_H

#include "intra/layout.h"
#include "intra/llvm/ir_function.h"

enum instrument_buffer {
	INSTRUMENT_BUFFER_SHARED, /* rings in shared memory, copied out at the end */
	INSTRUMENT_BUFFER_GLOBAL, /* rings in global memory */
};

struct instrument_options {
	const char *arch;    /* "sm_90", "gfx942"; only AMD's is looked at */
	uint32_t warp_count; /* of a CTA, those of partitions included */
	uint32_t threads_per_warp;
	uint32_t shared_bytes; /* the kernel's own use of shared memory */
	uint32_t shared_limit; /* most that a CTA of this device can have; 0: by default 48 KiB */
	uint32_t shared_per_processor; /* of one multiprocessor; 0: the same as shared_limit */
	enum instrument_buffer buffer;
	uint32_t buffer_bytes; /* all rings of a CTA; 0: what does not cost the kernel occupancy */
	uint32_t warps_per_unit; /* granularity; 0 is 1; >= warp_count: one unit per CTA */
	uint64_t warps;          /* bit i: warp i is sampled; 0: all */
	uint32_t cta_stride;     /* every n-th CTA is sampled; 0 is 1 */
	bool sched_barriers;     /* AMD: nothing is scheduled across a record */
};

struct instrument_result {
	struct instrument_layout layout;
	char *text; /* malloc'd, terminated; NULL: there was no marker, the text stays as it was */
	size_t length;
	uint32_t shared_bytes;    /* that the kernel needs now */
	uint32_t record_count;    /* record sites in the text */
	uint32_t ignored_markers; /* that stay comments: of functions that cannot be changed */
	char ignored_reason[IR_REASON_MAX]; /* a sentence, or empty */
	enum instrument_buffer buffer;      /* shared may have become global, for want of room */
};

/*
 * E_UNSUPPORTED with a sentence when the kernel cannot be instrumented: it is to be compiled
 * as it was. E_INVALID for options that cannot be. The caller releases the result with
 * instrument_result_fini().
 */
int instrument_llvm(const char *text, size_t length, const struct instrument_options *options,
		    struct instrument_result *out, struct proton_error *err);
void instrument_result_fini(struct instrument_result *result);

#endif
