/*
 * Output of an export: an atomically replaced file, or standard output. A signal that ends the
 * program (Ctrl-C) leaves no incomplete file.
 */
#ifndef VIEWER_EXPORT_SAVE_H
#define VIEWER_EXPORT_SAVE_H

#include <stdbool.h>

#include "base/replace.h"

struct save {
	struct out *out; /* to write to */
	struct file_replace file;
	struct out direct; /* standard output, or a file that is not regular, such as a pipe */
	int terminal; /* that `direct` writes to; text is collected and cleaned first; -1: none */
	bool is_direct;
	char *path; /* of a file that is opened directly; NULL: standard output */
};

/*
 * `path` NULL or "-" is standard output. Symbolic links are followed. Devices, pipes and the file
 * that standard output is redirected to are written to, not replaced. `no_clobber`: a file that
 * exists at commit time is kept, which is an error. After PROTON_OK, call save_commit() or
 * save_abandon().
 */
int save_begin(struct save *save, const char *path, bool no_clobber, struct proton_error *err);
/* A reader that closes the pipe early (`| head`) is not an error. */
int save_commit(struct save *save, struct proton_error *err);
void save_abandon(struct save *save);

#endif
