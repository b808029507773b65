/* Check of how the recorder can be loaded into a program file. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <stdbool.h>

enum program_entry {
	PROGRAM_REFUSED, /* not at all: a message was printed */
	PROGRAM_PRELOAD, /* by LD_PRELOAD, before main() */
	PROGRAM_INJECT,  /* only by the driver, at CUDA initialization: a message was printed */
};

/*
 * Follows `#!` to the interpreter. `can_inject`: the driver is installed and would load a library.
 */
enum program_entry program_check(const char *path, bool can_inject);

#endif
