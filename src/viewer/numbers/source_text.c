/* Source text that a profile contains, split into lines. */
#include "viewer/numbers/source_text.h"

#include <stdlib.h>
#include <string.h>

#include "viewer/print/xalloc.h"

/* `length` is not 0. */
static void split_source(struct source_text *text, size_t length)
{
	const char *end = text->bytes + length;
	const char *at = text->bytes;
	size_t capacity = 0;

	do {
		const char *newline = memchr(at, '\n', (size_t)(end - at));

		xreserve(&text->starts, &capacity, text->line_count + 2u, sizeof(*text->starts));
		text->starts[text->line_count++] = (size_t)(at - text->bytes);
		at = newline ? newline + 1 : end;
	} while (at < end && text->line_count < UINT32_MAX - 1);
	/* As if the last line ended with a newline too. */
	text->starts[text->line_count] = length + (end[-1] != '\n');
}

void source_texts_init(struct source_texts *texts, const struct profile *profile)
{
	const struct profile_samples *samples = profile->samples;

	*texts = (struct source_texts){0};
	if (!samples)
		return;
	texts->texts = xcalloc(samples->source_count, sizeof(*texts->texts));
	for (size_t i = 0; i < samples->source_count; i++) {
		const struct profile_source *source = &samples->sources[i];
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
	const char *begin;
	size_t length;

	if (line == 0 || line > text->line_count)
		return NULL;
	begin = text->bytes + text->starts[line - 1];
	length = text->starts[line] - 1 - text->starts[line - 1];
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
