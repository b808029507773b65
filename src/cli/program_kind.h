/*
 * Kind of a program file for the dynamic linker. It allocates and prints nothing, because it also
 * runs between fork and exec inside recorded programs.
 */
#ifndef CLI_PROGRAM_KIND_H
#define CLI_PROGRAM_KIND_H

#include <limits.h>

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

#endif
