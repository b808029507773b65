/*
 * Working file: its name, lock and descriptor.
 *
 * The lock on the file (flock) decides which process owns the name. It is taken before anything is
 * written. Only its holder may remove or rename the file, after checking that the name still refers
 * to the locked file. An empty file belongs to the first process that locks it. So several
 * processes can start with one name at the same moment, and one that is killed in between does not
 * stop the next.
 *
 * The descriptor is only needed to grow. The program may close it (daemons close all descriptors)
 * and reuse its number, so each use first checks that the number still refers to the working file,
 * where no other thread of the program can change it.
 * The mapping keeps the lock.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/region.h"

struct working_file {
	int fd;
	char *path;
	char *leftover; /* new name of an incomplete profile of the same name, or NULL */
	char *earlier;  /* where a complete profile is while this one is recorded, or NULL */
	mode_t earlier_mode;
	dev_t device;
	ino_t inode;
};

/*
 * Creates and locks `path`, which ends in ".proton" and is copied. An existing profile that no
 * process is writing is renamed to the first free name of NAME.PID, NAME.PID.2 and so on, with the
 * PID that wrote it. A complete one gets its name back when this file is removed. E_BUSY: another
 * process is writing the file. E_INVALID: it exists and is not a profile.
 */
int working_file_create(struct working_file *file, const char *path, struct proton_error *err);

/*
 * Makes a file with an unused name: the first of NAME.PID, NAME.PID.2 and so on without a file,
 * with any suffix. PID is this process. `path` is NAME's.
 */
int working_file_create_own(struct working_file *file, const char *path, struct proton_error *err);

/* The first name that working_file_create_own() would try, without suffix; NULL: out of memory. */
char *working_file_own_name(const char *path);

/*
 * `fd` with a high number that the program does not expect, closed on exec; `fd` if none is free.
 */
int working_file_move_high(int fd);

/*
 * Allocates blocks at the end of the file, and maps them as the next part of `space`. Returns 0 or
 * an errno: EBADF, the descriptor is no longer the file's; ENODATA, the file is shorter than
 * `offset`; after *is_allocated_out is set, an errno of mmap(). Call it with own descriptors
 * (base/guest.h): else it can be another file's a moment later.
 */
int working_file_map(const struct working_file *file, struct region *space, off_t offset,
		     size_t bytes, bool *is_allocated_out);

/* False if it was removed or renamed. */
bool working_file_has_name(const struct working_file *file);
/*
 * Removes the file if it still has its name. Call it before unmapping, because it needs the lock. A
 * complete earlier profile gets the name back.
 */
void working_file_remove(const struct working_file *file);
/* Removes the complete earlier profile after this one has replaced it. */
void working_file_drop_earlier(struct working_file *file);
/* Closes the descriptor, unless it now belongs to another file, and frees the texts. */
void working_file_close(struct working_file *file);
