/* Directories for sockets of the user's processes, which no other user can enter. */
#ifndef BASE_RUNTIME_DIRECTORY_H
#define BASE_RUNTIME_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define RUNTIME_DIRECTORY_COUNT 2u

/*
 * The path of number `index`, best first: XDG_RUNTIME_DIR/proton, /tmp/proton-UID. False if the
 * variable does not name an absolute directory.
 */
bool runtime_directory_path(unsigned index, char *path, size_t capacity);

/*
 * Opens such a directory; `create` makes it if it does not exist. E_PERMISSION: it is not a
 * directory that belongs to the user, or others may enter it. E_IO.
 */
int runtime_directory_open(const char *path, bool create, int *fd_out, struct proton_error *err);

#endif
