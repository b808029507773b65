/*
 * Replacing a file whole or not at all: bytes go to a temporary file in the same directory, which
 * is renamed on success. The temporary file is new, has an unpredictable name and is locked while
 * its writer lives, so that one that a crash left can be told from one in use and be removed.
 */
#ifndef BASE_REPLACE_H
#define BASE_REPLACE_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/buf.h"

/* Usage: file_replace_begin(), write to .out, then file_replace_commit() or _abandon(). */
struct file_replace {
	struct out out;
	char *path; /* symbolic links resolved */
	char *temporary;
	bool is_exclusive; /* set after _begin(): commit fails if the file exists by then */
	bool has_earlier;
	struct stat earlier; /* the file that is replaced: its owner and permissions are kept */
};

/*
 * A symbolic link is followed: the file it points to is replaced. Refuses what is not a regular
 * file, a link to nothing, and a file that the user may not write to.
 */
int file_replace_begin(struct file_replace *file, const char *path, struct proton_error *err);
int file_replace_commit(struct file_replace *file, struct proton_error *err);
void file_replace_abandon(struct file_replace *file);

/*
 * `path` with symbolic links resolved, malloc'd. *exists_out: whether there is such a file, and
 * *st_out is its status then. E_INVALID: not a regular file, or a link to nothing.
 */
int file_replace_target(const char *path, char **target_out, bool *exists_out, struct stat *st_out,
			struct proton_error *err);

/*
 * Removes temporary files that crashed writers of `path`, or of files with names that begin with
 * `path` and a dot, have left. Files that are not certainly such are left alone.
 */
void file_replace_clean(const char *path);

#endif
