/* Source text that a profile contains, by line. */
#ifndef VIEWER_NUMBERS_SOURCE_TEXT_H
#define VIEWER_NUMBERS_SOURCE_TEXT_H

#include "model/profile.h"
#include "model/samples.h"

struct source_text {
	uint32_t file; /* string of the profile */
	const char *bytes;
	size_t *starts; /* where lines begin; one more at the end */
	uint32_t line_count;
};

struct source_texts {
	struct source_text *texts; /* in the order of the profile */
	size_t count;
};

void source_texts_init(struct source_texts *texts, const struct profile *profile);
void source_texts_fini(struct source_texts *texts);

/* The text of a file; NULL: the profile does not contain it. */
const struct source_text *source_texts_find(const struct source_texts *texts, uint32_t file);
/* A line without its end, borrowed; NULL: the file has fewer lines. */
const char *source_text_line(const struct source_text *text, uint32_t line, size_t *length_out);

/* The file of the profile, with its text or without; NULL: none. */
const struct profile_source *source_of_file(const struct profile *profile, uint32_t file);

#endif
