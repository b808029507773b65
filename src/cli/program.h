/* Whether the recorder can be loaded into a program file. */
#ifndef CLI_PROGRAM_H
#define CLI_PROGRAM_H

#include <stdbool.h>

/* False, and one sentence on standard error, if it cannot. Follows `#!` to the interpreter. */
bool program_check(const char *path);

#endif
