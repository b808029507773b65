/*
 * Input of proton-viewer: files, standard input, and directories of parts or ranks. If one of
 * several files cannot be read, an error is printed and the others are shown.
 */
#pragma once

#include "model/load.h"
#include "model/merge.h"
#include "model/profile.h"

/* A file, the files of one rank, or all ranks of a job: it counts as one. */
struct input_unit {
	char *name; /* the first file, or the directory of the job */
	size_t first, count;
	bool is_job;
};

/* A file that stays in memory. */
struct input_kept {
	char *path;
	struct profile_bytes bytes;
};

/* Such files: a program shows them several times. */
struct input_store {
	struct input_kept *files;
	size_t count;
	struct profile *first; /* the sum of the only unit, for the first view; NULL: load it */
};

void input_store_fini(struct input_store *store);
/* Takes the bytes of a path; NULL: bytes that are read later. False: out of memory. */
bool input_store_add(struct input_store *store, const char *path, struct profile_bytes *bytes);

/* A file that was looked at before it is loaded. */
struct looked {
	char *path;
	struct profile *profile;
};

struct input {
	char **paths;   /* the files */
	bool *is_found; /* by file: in a directory, so it was not named */
	size_t count;
	struct input_unit *units; /* in the order of their files */
	char **labels;            /* short unique names of the units */
	size_t unit_count;
	bool has_failed;   /* a message was printed: the exit status is 2 */
	bool is_cut;       /* a damaged file was shown: the exit status is 1 */
	bool is_sum_meant; /* --merge sum: no message that unlike profiles are added up */
	/*
	 * The option that requires complete profiles, for messages; NULL: none. With it an
	 * incomplete file is an error that fails the whole command, unless is_partial_allowed.
	 */
	const char *needs_complete;
	bool is_partial_allowed; /* --allow-partial; with many files, also those without content */
	bool is_mixed_allowed;   /* --allow-mixed: ranks of several launches of a job are summed */
	struct input_store *store; /* NULL: files are read */
	bool keeps_times;          /* tables need the times of all ranks: rank_turn() */
	size_t left_out;           /* number of such files */
	uint64_t more_bytes;       /* see profile_load_next() */
	struct looked *looked;     /* files that were put back */
	size_t looked_count;
	/* For rank_input_next(): units that were read, copies among them, hashes of jobs. */
	size_t next, copies;
	uint64_t *seen;
	size_t seen_count;
	struct rank_job *job;   /* see rank_input_split() */
	struct profile *roster; /* with the table of its ranks */
};

/*
 * The files that `paths` refer to, each a unit: directories become the profiles in them, in natural
 * order.
 */
void input_init(struct input *input, char *const *paths, size_t count);
void input_fini(struct input *input);
/*
 * Makes the files with the same name a unit, in natural order and each once; NULL drops a file. A
 * unit that has the name of none of its files is a job. The names are copied.
 */
void input_regroup(struct input *input, const char *const *names);

/* The profile of one file, owned by the caller; NULL: a message was printed. */
struct profile *input_load(struct input *input, size_t index);
/* For a look at a file that is loaded later; NULL without a message: not a profile, or a pipe. */
struct profile *input_load_quietly(const char *path);
/* After a look: input_load() of that file takes the profile. */
void input_put_back(struct input *input, const char *path, struct profile *profile);
/* After loading: true if something is missing that the command requires. */
bool input_is_refused(const struct input *input);
/* The sum of the files of a unit as one profile; NULL if no file could be read. */
struct profile *input_load_unit(struct input *input, const struct input_unit *unit);

/* Prints warnings about lost data. */
void input_report_losses(const struct profile *profile);

/* True if a file of that name in an input directory is read. */
bool input_is_profile_name(const char *name);

/* "standard input" for "-". */
const char *input_display_name(const char *path);

/* A merge into a new profile. */
struct merge *sum_begin(struct profile **sum_out);
/* Adds a profile and frees it. */
void sum_add(struct merge *merge, struct profile *source);
/* Frees the merge; returns the sum. */
struct profile *sum_end(struct merge *merge, struct profile *sum);
