/*
 * Ranks: which process of a job of many processes this one is, and the output names of ranks.
 *
 * Launchers tell a process its rank in environment variables. A job's outputs are
 * NAME.ranks/000-999/rank000123.SUFFIX: no two ranks share a name, whatever locks the file system
 * has, and no directory has more than 1000 ranks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define RANK_NONE UINT32_MAX

struct rank_identity {
	uint32_t rank;        /* RANK_NONE: this process is not known to be one of many */
	uint32_t world;       /* number of ranks; 0: unknown */
	uint32_t local;       /* rank on its machine, or RANK_NONE */
	uint32_t attempt;     /* how often the job was restarted */
	const char *variable; /* in which the launcher told the rank; NULL: the user told it */
	char job[128];        /* the launcher's id of the job, or "" */
	char topology[256];
};

/* Where ranks are in output names. */
enum rank_names {
	RANK_NAMES_AUTO, /* where the user did not choose a name for this process */
	RANK_NAMES_ON,   /* in all names */
	RANK_NAMES_OFF,
	RANK_NAMES_MERGE,      /* in all names, until triton_proton.ranks has merged the files */
	RANK_NAMES_MERGE_KEEP, /* the same, and the files stay */
};

/* Reads the variables of launchers, and PROTON_RANK. */
void rank_read(struct rank_identity *out);

/* True if another process of the job may want the same name. */
bool rank_is_of_many(const struct rank_identity *identity);

/* PROTON_RANKS; E_INVALID: it has another value. */
int rank_names_read(enum rank_names *out, struct proton_error *err);
/* The number of a rank; false: `text` is NULL or is not such a number. */
bool rank_parse(const char *text, uint32_t *out);

/*
 * Replaces *stem by the name of this rank, if ranks are in names. `is_wanted`: by default they are,
 * in a job of more than one rank. A name that has the rank already, as of a child process of this
 * rank, is kept. E_INVALID: PROTON_RANKS is wrong.
 */
int rank_resolve(char **stem, bool is_wanted, bool *is_ranked_out, struct proton_error *err);
/* True for the name, or a path with the name, of a job's directory: NAME.ranks. */
bool rank_is_job(const char *name, size_t length);
/* True for the name of a directory in it: 000-999. */
bool rank_is_range(const char *name, size_t length);
/* Creates the directories of a name of rank_resolve(). */
int rank_make_directories(const char *stem, struct proton_error *err);
/* Removes them if they are empty. */
void rank_remove_directories(const char *stem);
