/* --sass: the sampled instructions of a kernel, with the text of a disassembler. */
#pragma once

#include "model/profile.h"
#include "model/samples.h"
#include "viewer/numbers/source_lines.h"

struct sass;

struct source_instruction {
	uint32_t file; /* of its innermost line, as in struct source_line */
	uint32_t line;
	uint32_t variant; /* from 1; of functions with the name of the kernel */
	uint32_t offset;  /* in bytes from the start of the function */
	const char *text; /* NULL: no disassembler, or no code */
	struct source_samples samples;
};

struct source_code {
	struct source_instruction *items; /* by file, line, variant and offset */
	size_t count;
	struct sass **disassembled; /* by code object; NULL: not opened */
	bool *has_failed;
	bool is_quiet; /* no message without a disassembler */
	size_t code_object_count;
	uint32_t variant_count;
};

/*
 * The sampled instructions of a kernel. Prints a message if there is no disassembler, which leaves
 * the instructions without text. Samples are those of all contexts. May add frames to the profile.
 * `kernel` NULL: no instructions and no message, only what source_code_sass() needs.
 */
void source_code_init(struct source_code *code, const struct source_report *report,
		      const struct source_kernel *kernel);
void source_code_fini(struct source_code *code);

/* The disassembled code of a function's code object, until source_code_fini(); NULL: no code. */
struct sass *source_code_sass(struct source_code *code, const struct profile_samples *samples,
			      const struct profile_function *function);

/* The first instruction of a line; *count_out of them follow each other. */
const struct source_instruction *source_code_of(const struct source_code *code,
						const struct source_line *line, size_t *count_out);

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
