/* Names that differ from rank to rank: made equal before profiles are merged; names of files. */
#ifndef VIEWER_RANKS_RANK_NAMES_H
#define VIEWER_RANKS_RANK_NAMES_H

#include <regex.h>

#include "model/profile.h"

/*
 * Replaces in the names of all frames: addresses ("0x7f12ab" by "0x*"), the rank after the word
 * "rank" ("rank 3" by "rank *"), and the process id as a separate word ("*"). Then "*" replaces
 * what `pattern` matches, if it is not NULL (pattern_compile() with 0).
 */
void rank_names_unify(struct profile *profile, uint32_t rank, const regex_t *pattern);

/* The rank in the name of a file that the recorder gave; RANK_NONE: the name is another one. */
uint32_t rank_of_name(const char *path);
/* The number after "rank" anywhere in the name of a file; RANK_NONE: none. */
uint32_t rank_in_name(const char *path);

#endif
