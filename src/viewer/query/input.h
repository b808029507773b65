/*
 * What is read: files, standard input, and directories of parts or ranks. What is wrong with one of
 * many is said, and the others are shown.
 */
#ifndef VIEWER_QUERY_INPUT_H
#define VIEWER_QUERY_INPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "model/profile.h"

struct input {
	char **paths;  /* of files */
	char **labels; /* short names that tell them apart */
	size_t count;
	bool has_failed; /* a message was printed: the exit status is 2 */
	/*
	 * The option that needs complete profiles, for messages; NULL: none does. With it an
	 * incomplete file is an error, and so is the whole command, unless is_partial_allowed.
	 */
	const char *needs_complete;
	bool is_partial_allowed; /* --allow-partial; of many files, those without content too */
	size_t left_out;         /* such files */
};

/* The files that `paths` stand for: directories become the profiles in them, in natural order. */
void input_init(struct input *input, char *const *paths, size_t count);
void input_fini(struct input *input);

/* One file's profile, the caller's; NULL: a message was printed. */
struct profile *input_load(struct input *input, size_t index);
/* After loading: true if something is missing that the command cannot do without. */
bool input_is_refused(const struct input *input);
/* All files as one profile, the sums; NULL if none could be read. */
struct profile *input_load_all(struct input *input);

/* What a reader of the numbers has to know before believing them: what was lost. */
void input_say_losses(const struct profile *profile);

/* True if a file of that name in an input directory is read. */
bool input_is_profile_name(const char *name);

/* "standard input" for "-". */
const char *input_display_name(const char *path);

#endif
