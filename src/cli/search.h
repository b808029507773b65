/* Finding programs the way a shell does. */
#ifndef CLI_SEARCH_H
#define CLI_SEARCH_H

#include <stdbool.h>

/* A regular file that this user may execute. */
bool search_is_program(const char *path);

/*
 * The path that execvp() would use for `name`: itself when it has a slash, else the first hit
 * in $PATH; malloc'd. NULL when there is none; *found_plain is then a file that is there but
 * cannot be executed (malloc'd too), or NULL.
 */
char *search_path(const char *name, char **found_plain);

/* The directory this executable lies in, symbolic links resolved; malloc'd, NULL if unknown. */
char *search_own_directory(void);

#endif
