/*
 * Atomic file replacement: bytes go to a temporary file in the same directory, which is renamed on
 * success. The temporary file is new, has an unpredictable name and is locked while its writer
 * lives, so a leftover of a crash is recognized and removed.
 */
#pragma once

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

/* Follows symbolic links. Rejects what is not a regular file, dangling links, no permission. */
int file_replace_begin(struct file_replace *file, const char *path, struct proton_error *err);
int file_replace_commit(struct file_replace *file, struct proton_error *err);
void file_replace_abandon(struct file_replace *file);
/* Commits if `status` is PROTON_OK, or else abandons and returns it. */
int file_replace_end(struct file_replace *file, int status, struct proton_error *err);

/* `path` with links resolved, malloc'd; its status, if it exists. E_INVALID: no regular file. */
int file_replace_target(const char *path, char **target_out, bool *exists_out, struct stat *st_out,
			struct proton_error *err);

/* Removes temporary files of crashed writers of `path`, or of names with it and a dot before. */
void file_replace_clean(const char *path);
