/*
 * Session of the injection library libproton_inject.so, and the entry point that the NVIDIA driver
 * calls in libraries of CUDA_INJECTION64_PATH.
 */
#ifndef CLI_INJECT_H
#define CLI_INJECT_H

#include <stdbool.h>

#include <libproton/status.h>

/* Called in cuInit(), on its thread. 1: the driver continues. */
PROTON_API int InitializeInjection(void);

/* False in a child after fork() or vfork(). */
bool inject_is_owner(void);
/*
 * In a signal handler, if the signal will end the process. True: its session is live, and it has
 * used neither libproton nor CUDA.
 */
bool inject_is_ended_by_signal(void);
/*
 * Before another program replaces this one in the process: ends the session and writes its data; an
 * empty session leaves its name to that program. False: there is no session.
 */
bool inject_leave(void);
/* The replacement failed: starts a session again. */
void inject_return(void);
/* coreutils programs close standard error in an exit function, before the line is printed. */
void inject_wrapper_closes_error(void);
/* In _exit(): ends the session if the process has not used it; shells do not. */
void inject_wrapper_exits(int status);

#endif
