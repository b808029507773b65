/* Environment variables: the only place that reads one by its name, and that adds one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/err.h"

/*
 * NULL if the variable is not set, and in a process that runs with elevated privileges (setuid,
 * setgid, file capabilities): its caller must not choose code to load, files or limits there.
 *
 * It works before main() in shells too: they define a getenv() that does not yet.
 */
static inline char *environment_get(const char *name)
{
	return secure_getenv(name);
}

/* True if the variable is a word that Triton reads as true, or as false if that is `wanted`. */
bool environment_is(const char *name, bool wanted);

/*
 * Adds "NAME=value", which must stay valid, and removes it again, while other threads may read the
 * environment. A variable that is set already is to be changed with setenv(), which then moves
 * nothing.
 */
bool environment_append(char *entry);
void environment_remove(const char *entry);

/* Directories for sockets of the user's processes, which no other user can enter. */

#define RUNTIME_DIRECTORY_COUNT 2u

/* Path `index`: XDG_RUNTIME_DIR/proton, /tmp/proton-UID. False: the variable has no full path. */
bool runtime_directory_path(unsigned index, char *path, size_t capacity);

/* Opens such a directory; `create` makes it. E_PERMISSION: not the user's alone. E_IO. */
int runtime_directory_open(const char *path, bool create, int *fd_out, struct proton_error *err);
