/*
 * What kind of program a file is, for the dynamic linker. Nothing is allocated and nothing printed:
 * it is also asked between fork and exec, inside the programs that are recorded.
 */
#ifndef CLI_PROGRAM_KIND_H
#define CLI_PROGRAM_KIND_H

#include <limits.h>

enum program_kind {
	PROGRAM_DYNAMIC, /* LD_PRELOAD reaches it */
	PROGRAM_STATIC,
	PROGRAM_FOREIGN,    /* another word size or machine */
	PROGRAM_SANITIZED,  /* GCC's AddressSanitizer, which wants to be the first library */
	PROGRAM_PRIVILEGED, /* runs with the rights of another user */
	PROGRAM_UNKNOWN,    /* neither a program nor a script with a #! line */
	PROGRAM_UNREADABLE, /* errno says why */
};

/* Follows `#!` to the interpreter; `file` gets the path of the last file that was looked at. */
enum program_kind program_kind(const char *path, char file[PATH_MAX]);

#endif
