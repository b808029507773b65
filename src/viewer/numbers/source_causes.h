/*
 * Causes of a kernel's waiting: stalls are sampled at the instruction that waits, and belong to the
 * lines of its producers (symbol/sass_causes.h).
 *
 * A stall with several causes is shared out. Producers of a result count as often as the block of
 * each issues instructions; for a barrier, each instruction since the barrier before counts by its
 * own samples, which go where its own waiting goes.
 */
#pragma once

#include "viewer/numbers/source_code.h"

/* Samples of a line with a reason, and the line that causes them. */
struct source_cause {
	uint32_t file, line; /* the cause, as in struct source_line */
	uint32_t at_file, at_line;
	uint32_t reason; /* in the report; or the number of reasons there */
	uint64_t samples;
	uint64_t shared; /* the part from stalls that have causes in several lines */
};

struct source_causes {
	struct source_cause *items; /* by cause, line and reason; free() them */
	size_t count;
	uint64_t samples; /* in all contexts; 0: no causes are known */
};

/*
 * Takes all functions with the kernel's name. Without their machine code or a disassembler, and
 * for AMD, there are none. May add frames to the profile.
 */
void source_causes_init(struct source_causes *causes, const struct source_report *report,
			const struct source_kernel *kernel, struct source_code *code);

/* Adds lines to the kernel that cause samples and have none. */
void source_causes_add_lines(const struct source_causes *causes, struct source_kernel *kernel);
/* Samples that a line causes, with any reason. */
uint64_t source_causes_of_line(const struct source_causes *causes, uint32_t file, uint32_t line);
/*
 * The lines that cause the samples with a reason, largest number first, at most `max`; returns how
 * many, and the samples with the reason in *all_out.
 */
size_t source_causes_of_reason(const struct source_causes *causes, uint32_t reason,
			       struct source_cause *out, size_t max, uint64_t *all_out);
