/* Program search as execvp() does it, without allocation: also between fork and exec. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum search_result {
	SEARCH_PROGRAM,
	SEARCH_FILE, /* a file that is not a program */
	SEARCH_NOTHING,
};

/* True for a regular file that this user may execute. */
bool search_is_program(const char *path);

/* `path` becomes the file that execvp() would use for `name`; "": nothing was found. */
enum search_result search_path(const char *name, char path[PATH_MAX]);

/* The beginning of a file, with a NUL. False with errno. */
bool search_read_head(const char *path, char *bytes, size_t capacity, size_t *length_out);

/* The directory of this executable, with symbolic links resolved. False if unknown. */
bool search_own_directory(char path[PATH_MAX]);

/* Kind of a program file for the dynamic linker. No allocation: also between fork and exec. */

enum program_kind {
	PROGRAM_DYNAMIC, /* LD_PRELOAD reaches it */
	PROGRAM_STATIC,
	PROGRAM_FOREIGN,    /* another architecture or word size */
	PROGRAM_SANITIZED,  /* GCC's AddressSanitizer, which must be the first library */
	PROGRAM_PRIVILEGED, /* runs with the rights of another user */
	PROGRAM_UNKNOWN,    /* neither an executable nor a script with a #! line */
	PROGRAM_UNREADABLE, /* reason in errno */
};

/* Follows `#!` to the interpreter; `file` receives the path of the last file inspected. */
enum program_kind program_kind(const char *path, char file[PATH_MAX]);
