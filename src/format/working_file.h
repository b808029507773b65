/*
 * The place of a working file: its name, its lock and its descriptor.
 *
 * The lock on the file (flock) decides which process has the name. It is taken before anything is
 * written, and only its holder may remove or rename the file, after it has checked that the name
 * still means the file that it locked. An empty file belongs to the process that locks it first. So
 * several processes can start one name at the same moment, and one that is killed in between leaves
 * nothing that stops the next.
 *
 * The descriptor is only needed to grow. The program may close it (daemons close every descriptor)
 * and get its number for a file of its own, so each use checks first that the number still means
 * the working file. The mapping keeps the lock.
 */
#ifndef FORMAT_WORKING_FILE_H
#define FORMAT_WORKING_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct working_file {
	int fd;
	char *path;
	char *leftover; /* where an unfinished profile of the same name was moved, or NULL */
	char *earlier;  /* where a finished one was moved while this one is recorded, or NULL */
	mode_t earlier_mode;
	dev_t device;
	ino_t inode;
};

/*
 * Creates and locks `path`, which ends in ".proton" and is copied. A profile of that name that no
 * process writes is moved to the first free name of NAME.PID, NAME.PID.2 and so on, with the PID
 * that wrote it. A finished one gets its name back when this file is removed. E_BUSY: another
 * process is writing it. E_INVALID: something that is not a profile has the name.
 */
int working_file_create(struct working_file *file, const char *path, struct proton_error *err);

/*
 * The same under a name that has never been used: the first of NAME.PID, NAME.PID.2 and so on of
 * which there is no file, with any suffix. PID is this process's. `path` is that of NAME.
 */
int working_file_create_own(struct working_file *file, const char *path, struct proton_error *err);

/* The name that working_file_create_own() would try first, without suffix; NULL: out of memory. */
char *working_file_own_name(const char *path);

/* `fd` under a number that the program does not expect, closed on exec; `fd` if there is none. */
int working_file_move_high(int fd);

/* Allocates blocks; an errno, or 0. EBADF: the descriptor is not that of the file any more. */
int working_file_allocate(const struct working_file *file, off_t offset, off_t bytes);

/*
 * Removes the file if it still has its name, which asks for the lock: before it is unmapped. An
 * earlier finished profile gets the name.
 */
void working_file_remove(const struct working_file *file);
/* Removes the earlier finished profile: this one has replaced it. */
void working_file_drop_earlier(struct working_file *file);
/* Closes the descriptor, unless the number means another file by now, and frees the texts. */
void working_file_close(struct working_file *file);

#endif
