/* Source lines of a sampled function. */
#include "model/sample_lines.h"

#include <stdio.h>
#include <string.h>

#include "symbol/line_table.h"

/* The PTX of a cubin; NULL: not stored. */
static const struct profile_source *ptx_of(const struct profile *profile,
					   const struct profile_samples *samples, uint64_t crc)
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
	const struct profile_source *ptx = ptx_of(profile, samples, object->crc);
	struct line_table *table;

	if (!object->length ||
	    line_table_open(object->bytes, object->length, ptx ? ptx->text : NULL,
			    ptx ? ptx->length : 0, &table, NULL) != PROTON_OK)
		return NULL;
	object->wants_ptx = line_table_wants_ptx(table);
	return table;
}

void lines_open(struct lines *lines, struct profile *profile, struct profile_samples *samples,
		const struct profile_function *function)
{
	if (lines->code_object != function->code_object) {
		line_table_close(lines->table);
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
}

void lines_close(struct lines *lines)
{
	line_table_close(lines->table);
	lines->table = NULL;
}

static struct line_run run_at(const struct lines *lines, uint32_t offset)
{
	struct line_run run;

	return lines->table && line_table_run(lines->table, lines->function, offset, &run)
		       ? run
		       : (struct line_run){.info = LINE_INFO_NONE};
}

uint32_t lines_frame(const struct lines *lines, uint32_t offset)
{
	return run_at(lines, offset).frame;
}

uint32_t lines_add(const struct lines *lines, uint32_t offset, uint64_t samples)
{
	struct line_run run = run_at(lines, offset);

	lines->samples->known[run.info] += samples;
	return run.frame;
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
	return lines->table ? line_table_frame_count(lines->table) : 0;
}

uint32_t lines_caller(const struct lines *lines, uint32_t frame)
{
	return line_table_frame(lines->table, frame)->caller;
}

static void note_file(struct profile_samples *samples, uint32_t file)
{
	size_t i = 0;

	while (i < samples->file_count && samples->files[i] != file)
		i++;
	if (i == samples->file_count && i < SAMPLES_FILES_MAX)
		samples->files[samples->file_count++] = file;
}

uint32_t lines_profile_frame(const struct lines *lines, uint32_t frame)
{
	const struct line_frame *line = line_table_frame(lines->table, frame);
	struct profile *profile = lines->profile;
	struct profile_frame added = {
		.kind = FRAME_SOURCE, .name = lines->name, .line = line->line};

	added.file = profile_string(profile, line->file, strlen(line->file));
	if (line->function)
		added.name = profile_string(profile, line->function, strlen(line->function));
	note_file(lines->samples, added.file);
	return profile_frame(profile, added);
}
