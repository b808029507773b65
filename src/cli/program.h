/* How the recorder can be loaded into a program file. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <stdbool.h>

enum program_entry {
	PROGRAM_REFUSED, /* not at all: said on standard error */
	PROGRAM_PRELOAD, /* by LD_PRELOAD, before main() */
	PROGRAM_INJECT,  /* by the driver only, when it initialises CUDA: said too */
};

/* Follows `#!` to the interpreter. `can_inject`: the driver is there and would load a library. */
enum program_entry program_check(const char *path, bool can_inject);

#endif
