/*
 * exec and posix_spawn wrappers of libproton_inject.so: the recorder follows into a program that
 * the target starts, in the same process (env, nice, `exec` in a shell) or in a child (timeout, `sh
 * -c`). The environment that the program sees and passes on stays unchanged.
 */
#ifndef CLI_INJECT_EXEC_H
#define CLI_INJECT_EXEC_H

#include <stdbool.h>

/* Saves the variables that `proton` set, before they are removed. */
void inject_exec_keep(void);
/* The next program in this process records as the child of one that has exited. */
void inject_exec_detach(void);

#endif
