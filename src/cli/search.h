/*
 * Program search on $PATH, as execvp() does it. It allocates nothing, because it also runs between
 * fork and exec inside recorded programs.
 */
#ifndef CLI_SEARCH_H
#define CLI_SEARCH_H

#include <limits.h>
#include <stdbool.h>

enum search_result {
	SEARCH_PROGRAM,
	SEARCH_FILE, /* a file that is not a program */
	SEARCH_NOTHING,
};

/* True for a regular file that this user may execute. */
bool search_is_program(const char *path);

/*
 * `path` becomes what execvp() would use for `name`: the name itself if it has a slash, else the
 * first match in $PATH. "": nothing was found.
 */
enum search_result search_path(const char *name, char path[PATH_MAX]);

/* The directory of this executable, with symbolic links resolved. False if unknown. */
bool search_own_directory(char path[PATH_MAX]);

#endif
