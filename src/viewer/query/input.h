/*
 * Input of proton-viewer: files, standard input, and directories of parts or ranks. If one of
 * several files cannot be read, an error is printed and the others are shown.
 */
#ifndef VIEWER_QUERY_INPUT_H
#define VIEWER_QUERY_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"

struct input {
	char **paths;  /* of the files */
	char **labels; /* short unique names */
	size_t count;
	bool is_job;     /* they are those of one directory NAME.ranks */
	bool has_failed; /* a message was printed: the exit status is 2 */
	/*
	 * The option that requires complete profiles, for messages; NULL: none. With it an
	 * incomplete file is an error that fails the whole command, unless is_partial_allowed.
	 */
	const char *needs_complete;
	bool is_partial_allowed; /* --allow-partial; with many files, also those without content */
	bool is_mixed_allowed;   /* --allow-mixed: ranks of several launches of a job are summed */
	size_t left_out;         /* number of such files */
	uint64_t more_bytes;     /* see profile_load_next() */
};

/* The files that `paths` refer to: directories become the profiles in them, in natural order. */
void input_init(struct input *input, char *const *paths, size_t count);
void input_fini(struct input *input);

/* The profile of one file, owned by the caller; NULL: a message was printed. */
struct profile *input_load(struct input *input, size_t index);
/* After loading: true if something is missing that the command requires. */
bool input_is_refused(const struct input *input);
/*
 * The sum of all files as one profile; NULL if no file could be read. For a job, see
 * rank_input_sum().
 */
struct profile *input_load_all(struct input *input);

/* Prints warnings about lost data. */
void input_report_losses(const struct profile *profile);

/* True if a file of that name in an input directory is read. */
bool input_is_profile_name(const char *name);

/* "standard input" for "-". */
const char *input_display_name(const char *path);

#endif
