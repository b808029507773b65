/*
 * The session of libproton_inject.so, for the other files of that library; and the name by which
 * the NVIDIA driver calls what CUDA_INJECTION64_PATH brought in.
 */
#ifndef CLI_INJECT_H
#define CLI_INJECT_H

#include <stdbool.h>

#include <libproton/status.h>

/* In cuInit(), on the thread that calls it. 1: the driver may go on. */
PROTON_API int InitializeInjection(void);

/* Not a child after fork() or vfork(). */
bool inject_is_owner(void);
/*
 * In a signal handler: the signal is going to end the process. True: its session is live, and it
 * has used neither libproton nor CUDA.
 */
bool inject_is_ended_by_signal(void);
/*
 * Before another program takes over the process: ends the session. What was recorded is written;
 * an empty session leaves its name to that program. False: there is none.
 */
bool inject_leave(void);
/* It did not take over: starts a session again. */
void inject_return(void);
/* Programs of coreutils close it in an exit function, before the line is printed. */
void inject_wrapper_closes_error(void);
/* In _exit(): ends the session if the process has not used it, as shells do not. */
void inject_wrapper_exits(int status);

#endif
