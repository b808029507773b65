/* The sampled instructions of a kernel: their lines, samples and text. */
#include "viewer/numbers/source_code.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/message.h"
#include "model/sample_lines.h"
#include "model/samples.h"
#include "symbol/sass.h"
#include "viewer/print/xalloc.h"

struct sass *source_code_sass(struct source_code *code, const struct profile_samples *samples,
			      const struct profile_function *function)
{
	uint32_t object = function->code_object - 1;
	struct proton_error err;

	if (!function->code_object || !samples->code_objects[object].length)
		return NULL;
	if (!code->disassembled[object] && !code->has_failed[object] &&
	    sass_open(samples->code_objects[object].bytes, samples->code_objects[object].length,
		      &code->disassembled[object], &err)) {
		code->has_failed[object] = true;
		if (!code->is_quiet)
			message_once("%s; only offsets of instructions are printed", err.text);
	}
	return code->disassembled[object];
}

static void add_function(struct source_code *code, const struct source_report *report,
			 const struct profile_function *function)
{
	struct profile *profile = report->profile;
	struct profile_samples *samples = profile->samples;
	struct sass *sass = source_code_sass(code, samples, function);
	const char *name = profile_text(profile, function->name);
	uint32_t in_sass = sass ? sass_function(sass, name) : SASS_FUNCTION_NONE;
	struct lines lines = {0};
	struct source_instruction *item = NULL;

	code->variant_count++;
	lines_open(&lines, profile, samples, function);
	for (size_t i = 0; i < function->pc_count; i++) {
		const struct profile_pc *pc = &samples->pcs[function->first_pc + i];
		size_t reason = source_reason_of(report, samples->reasons[pc->reason]);

		if (i == 0 || pc->offset != pc[-1].offset) {
			uint32_t line = lines_frame(&lines, pc->offset);
			uint32_t frame = line ? lines_profile_frame(&lines, line) : 0;

			xreserve(&code->items, &code->capacity, code->count + 1,
				 sizeof(*code->items));
			item = &code->items[code->count++];
			*item = (struct source_instruction){
				.file = line ? profile->frames[frame].file : 0,
				.line = line ? profile->frames[frame].line : 0,
				.variant = code->variant_count,
				.offset = pc->offset,
				.text = in_sass == SASS_FUNCTION_NONE
						? NULL
						: sass_at(sass, in_sass, pc->offset),
			};
		}
		item->samples.all += pc->samples;
		if (reason < report->reason_count)
			item->samples.by_reason[reason] += pc->samples;
	}
	lines_close(&lines);
}

ARRAY_ORDER(compare_items, struct source_instruction,
	    ORDER_OF(a->file, b->file) ?: ORDER_OF(a->line, b->line)
	    ?: ORDER_OF(a->variant, b->variant) ?: ORDER_OF(a->offset, b->offset))

void source_code_init(struct source_code *code, const struct source_report *report,
		      const struct source_kernel *kernel)
{
	const struct profile *profile = report->profile;
	const struct profile_samples *samples = profile->samples;

	*code = (struct source_code){.is_quiet = !kernel};
	if (!samples)
		return;
	code->code_object_count = samples->code_object_count;
	code->disassembled = xcalloc(samples->code_object_count, sizeof(struct sass *));
	code->has_failed = xcalloc(samples->code_object_count, sizeof(bool));
	for (uint32_t i = 0; kernel && i < samples->function_count; i++)
		if (samples->functions[i].name == profile->frames[kernel->frame].name)
			add_function(code, report, &samples->functions[i]);
	ARRAY_SORT(code->items, code->count, compare_items);
}

void source_code_fini(struct source_code *code)
{
	for (size_t i = 0; i < code->code_object_count; i++)
		sass_close(code->disassembled[i]);
	FREE_ALL(code->disassembled, code->has_failed, code->items);
}

const struct source_instruction *source_code_of(const struct source_code *code,
						const struct source_line *line, size_t *count_out)
{
	size_t low = ARRAY_COUNT_BEFORE(code->count, i,
					code->items[i].file < line->file ||
						(code->items[i].file == line->file &&
						 code->items[i].line < line->line));
	size_t end;

	*count_out = 0;
	if (!code->count)
		return NULL;
	for (end = low; end < code->count && code->items[end].file == line->file &&
			code->items[end].line == line->line;)
		end++;
	*count_out = end - low;
	return &code->items[low];
}
