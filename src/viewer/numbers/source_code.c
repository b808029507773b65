/* The sampled instructions of a kernel: their lines, samples and text. */
#include "viewer/numbers/source_code.h"

#include "base/array.h"
#include "base/message.h"
#include "model/sample_lines.h"
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
		      NULL, 0, &code->disassembled[object], &err)) {
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
	AT_END(lines_close) struct lines lines = {0};
	struct source_instruction *item = NULL;

	code->variant_count++;
	lines_open(&lines, profile, samples, function);
	for (size_t i = 0; i < function->pc_count; i++) {
		const struct profile_pc *pc = &samples->pcs[function->first_pc + i];
		size_t reason = source_reason_of(report, samples->reasons[pc->reason]);

		if (i == 0 || pc->offset != pc[-1].offset) {
			uint32_t line = lines_frame(&lines, pc->offset, 0);
			uint32_t frame = line ? lines_profile_frame(&lines, line) : 0;

			XADD(code->items, code->count,
			     (struct source_instruction){
				     .file = line ? profile->frames[frame].file : 0,
				     .line = line ? profile->frames[frame].line : 0,
				     .variant = code->variant_count,
				     .offset = pc->offset,
				     .text = sass ? sass_at(sass, in_sass, pc->offset) : NULL,
			     });
			item = &code->items[code->count - 1];
		}
		item->samples.all += pc->samples;
		if (reason < report->reason_count)
			item->samples.by_reason[reason] += pc->samples;
	}
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

/* ------------------------------------------------------------------ source text */

/* `length` is not 0. */
static void split_source(struct source_text *text, size_t length)
{
	const char *end = text->bytes + length;
	const char *at = text->bytes;

	do {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		XADD(text->starts, text->line_count, (size_t)(at - text->bytes));
		at = newline ? newline + 1 : end;
	} while (at < end && text->line_count < UINT32_MAX - 1);
	/* As if the last line ended with a newline too. */
	XADD(text->starts, text->line_count, length + (end[-1] != '\n'));
	text->line_count--;
}

void source_texts_init(struct source_texts *texts, const struct profile *profile)
{
	const struct profile_samples *samples = profile->samples;

	*texts = (struct source_texts){0};
	if (!samples)
		return;
	texts->texts = xcalloc(samples->source_count, sizeof(*texts->texts));
	ARRAY_EACH(source, samples->sources, samples->source_count) {
		struct source_text *text = &texts->texts[texts->count];

		if (!source->length)
			continue;
		*text = (struct source_text){.file = source->path, .bytes = source->text};
		split_source(text, source->length);
		texts->count++;
	}
}

void source_texts_fini(struct source_texts *texts)
{
	for (size_t i = 0; i < texts->count; i++)
		free(texts->texts[i].starts);
	free(texts->texts);
}

const struct source_text *source_texts_find(const struct source_texts *texts, uint32_t file)
{
	for (size_t i = 0; i < texts->count; i++)
		if (texts->texts[i].file == file)
			return &texts->texts[i];
	return NULL;
}

const char *source_text_line(const struct source_text *text, uint32_t line, size_t *length_out)
{
	if (line == 0 || line > text->line_count)
		return NULL;
	const char *begin = text->bytes + text->starts[line - 1];
	size_t length = text->starts[line] - 1 - text->starts[line - 1];
	if (length && begin[length - 1] == '\r')
		length--;
	*length_out = length;
	return begin;
}

const struct profile_source *source_of_file(const struct profile *profile, uint32_t file)
{
	const struct profile_samples *samples = profile->samples;

	for (size_t i = 0; samples && i < samples->source_count; i++)
		if (samples->sources[i].path == file)
			return &samples->sources[i];
	return NULL;
}
