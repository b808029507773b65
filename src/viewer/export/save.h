/*
 * Where an export goes: a file, whole or not at all, or standard output. A signal that ends the
 * program (Ctrl-C) leaves nothing half written behind.
 */
#ifndef VIEWER_EXPORT_SAVE_H
#define VIEWER_EXPORT_SAVE_H

#include <stdbool.h>

#include "base/replace.h"

struct save {
	struct out *out; /* to write to */
	struct file_replace file;
	struct out direct; /* standard output, or what is no regular file, such as a pipe */
	int terminal;      /* that `direct` is for: then it is collected, and cleaned; else -1 */
	bool is_direct;
	char *path; /* of what is opened directly; NULL: standard output */
};

/*
 * `path` NULL or "-" is standard output. A symbolic link is followed; a device, a pipe or the file
 * that standard output is redirected to is written to and not replaced. `no_clobber`: a file that
 * exists by the time of the commit is kept, which is an error. After PROTON_OK one of save_commit()
 * and save_abandon() must follow.
 */
int save_begin(struct save *save, const char *path, bool no_clobber, struct proton_error *err);
/* A reader that has seen enough (`| head`) is no error. */
int save_commit(struct save *save, struct proton_error *err);
void save_abandon(struct save *save);

#endif
