/*
 * Calls of the program that start another one, through libproton_inject.so: the recorder goes on
 * into that program, be it in this process (env, nice, `exec` in a shell) or in a child (timeout,
 * `sh -c`). The environment that the program sees and passes on stays its own.
 */
#ifndef CLI_INJECT_EXEC_H
#define CLI_INJECT_EXEC_H

#include <stdbool.h>

/* Keeps what `proton` left in the environment, before it is taken out. */
void inject_exec_keep(void);
/* The next program in this process records as a child of one that has ended. */
void inject_exec_detach(void);

#endif
