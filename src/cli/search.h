/* Program search on $PATH, as shells do it. */
#ifndef CLI_SEARCH_H
#define CLI_SEARCH_H

#include <stdbool.h>

/* True for a regular file that this user may execute. */
bool search_is_program(const char *path);

/*
 * The path that execvp() would use for `name`: the name itself if it has a slash, else the first
 * match in $PATH; malloc'd. NULL if there is none; then *found_plain is an existing file that is
 * not executable (malloc'd too), or NULL.
 */
char *search_path(const char *name, char **found_plain);

/* The directory of this executable, with symbolic links resolved; malloc'd, NULL if unknown. */
char *search_own_directory(void);

#endif
