/* Source lines of a sampled function. */
#include "model/sample_lines.h"

#include <stdio.h>

#include "base/array.h"
#include "symbol/line_table.h"

/* Longer chains of calls keep the name of the kernel. */
#define CHAIN_MAX 64u

/* The PTX of a cubin; NULL: not stored. */
static const struct profile_source *find_ptx_source(const struct profile *profile,
						    const struct profile_samples *samples,
						    uint64_t crc)
{
	char path[32];

	snprintf(path, sizeof(path), SAMPLES_PTX_PATH, crc);
	for (size_t i = 0; i < samples->source_count; i++)
		if (strcmp(profile_text(profile, samples->sources[i].path), path) == 0)
			return &samples->sources[i];
	return NULL;
}

static struct line_table *open_table(const struct profile *profile,
				     const struct profile_samples *samples,
				     struct profile_code_object *object)
{
	const struct profile_source *ptx = find_ptx_source(profile, samples, object->crc);
	struct line_table *table;

	if (!object->length ||
	    line_table_open(object->bytes, object->length, ptx ? ptx->text : NULL,
			    ptx ? ptx->length : 0, &table, NULL) != PROTON_OK)
		return NULL;
	object->wants_ptx = line_table_wants_ptx(table);
	return table;
}

static struct line_run find_line_run(const struct lines *lines, uint32_t offset)
{
	struct line_run run;

	return lines->table && line_table_run(lines->table, lines->function, offset, &run)
		       ? run
		       : (struct line_run){.info = LINE_INFO_NONE};
}

void lines_open(struct lines *lines, struct profile *profile, struct profile_samples *samples,
		const struct profile_function *function)
{
	if (lines->code_object != function->code_object) {
		line_table_close(lines->table);
		lines->noinline_count = 0;
		hash_table_clear(&lines->by_frame);
		lines->code_object = function->code_object;
		lines->table =
			function->code_object
				? open_table(profile, samples,
					     &samples->code_objects[function->code_object - 1])
				: NULL;
	}
	lines->profile = profile;
	lines->samples = samples;
	lines->name = function->name;
	lines->function = lines->table ? line_table_function(lines->table,
							     profile_text(profile, function->name))
				       : LINE_FUNCTION_NONE;
	lines->own = find_line_run(lines, 0).function;
}

void lines_close(struct lines *lines)
{
	line_table_close(lines->table);
	lines->table = NULL;
	free(lines->noinline_frames);
	lines->noinline_frames = NULL;
	hash_table_fini(&lines->by_frame);
}

/* The number of a frame of a noinline function, made if new; 0: out of memory. */
static uint32_t noinline_frame(struct lines *lines, uint32_t frame, uint32_t name, uint32_t caller)
{
	uint64_t hash = hash_pair(frame, name);
	uint32_t index = hash_table_find(&lines->by_frame, hash);

	if (!index) {
		if (!array_reserve(&lines->noinline_frames, &lines->noinline_capacity,
				   lines->noinline_count + 1, sizeof(*lines->noinline_frames)) ||
		    !hash_table_add(&lines->by_frame, hash, (uint32_t)lines->noinline_count + 1)) {
			lines->profile->out_of_memory = true;
			return 0;
		}
		lines->noinline_frames[lines->noinline_count] =
			(struct noinline_frame){frame, name, caller};
		index = (uint32_t)++lines->noinline_count;
	}
	return line_table_frame_count(lines->table) + index;
}

/* The number of the run's line: the table's, unless it is in a noinline function. */
static uint32_t frame_of(struct lines *lines, const struct line_run *run)
{
	uint32_t path[CHAIN_MAX];
	size_t depth = 0;
	uint32_t frame = 0;

	if (!run->frame || !run->function || run->function == lines->own)
		return run->frame;
	for (uint32_t at = run->frame; at; at = line_table_frame(lines->table, at)->caller) {
		if (depth == CHAIN_MAX)
			return run->frame;
		path[depth++] = at;
	}
	uint32_t name = profile_add_text(lines->profile, run->function);
	while (depth--)
		frame = noinline_frame(lines, path[depth], name, frame);
	return frame;
}

uint32_t lines_frame(struct lines *lines, uint32_t offset, uint64_t samples)
{
	struct line_run run = find_line_run(lines, offset);

	lines->samples->known[run.info] += samples;
	return frame_of(lines, &run);
}

void lines_describe(const struct lines *lines)
{
	const uint64_t *known = lines->samples->known;
	uint64_t all = known[LINE_INFO_NONE] + known[LINE_INFO_INNERMOST] + known[LINE_INFO_CALLS];
	char text[128];

	if (!all)
		return;
	snprintf(text, sizeof(text),
		 "with inlined calls %.1f %%, innermost line only %.1f %%, none %.1f %%",
		 100.0 * (double)known[LINE_INFO_CALLS] / (double)all,
		 100.0 * (double)known[LINE_INFO_INNERMOST] / (double)all,
		 100.0 * (double)known[LINE_INFO_NONE] / (double)all);
	profile_info(lines->profile, "pc_sampling_lines", text);
}

uint32_t lines_frame_max(const struct lines *lines)
{
	return lines->table ? line_table_frame_count(lines->table) + (uint32_t)lines->noinline_count
			    : 0;
}

/* NULL: the frame is the table's. */
static const struct noinline_frame *noinline_of(const struct lines *lines, uint32_t frame)
{
	uint32_t count = line_table_frame_count(lines->table);

	return frame > count ? &lines->noinline_frames[frame - count - 1] : NULL;
}

uint32_t lines_caller(const struct lines *lines, uint32_t frame)
{
	const struct noinline_frame *noinline = noinline_of(lines, frame);

	return noinline ? noinline->caller : line_table_frame(lines->table, frame)->caller;
}

uint32_t lines_profile_frame(const struct lines *lines, uint32_t frame)
{
	const struct noinline_frame *noinline = noinline_of(lines, frame);
	const struct line_frame *line =
		line_table_frame(lines->table, noinline ? noinline->frame : frame);
	struct profile *profile = lines->profile;
	struct row_frame added = {.kind = FRAME_SOURCE,
				  .name = noinline ? noinline->name : lines->name,
				  .line = line->line};
	struct profile_samples *samples = lines->samples;
	size_t i = 0;

	added.file = profile_add_text(profile, line->file);
	if (line->function)
		added.name = profile_add_text(profile, line->function);
	while (i < samples->file_count && samples->files[i] != added.file)
		i++;
	if (i == samples->file_count && i < SAMPLES_FILES_MAX)
		samples->files[samples->file_count++] = added.file;
	return profile_frame(profile, added);
}
