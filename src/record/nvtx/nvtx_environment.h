/*
 * NVTX_INJECTION64_PATH, the variable that names NVTX's injection library, in this process. The
 * program's other threads may read the environment at any time. These functions are called only
 * during the start or stop of one backend, so never concurrently.
 */
#ifndef RECORD_NVTX_NVTX_ENVIRONMENT_H
#define RECORD_NVTX_NVTX_ENVIRONMENT_H

/* Sets it to this library, unless the variable is already set. */
void nvtx_environment_set(void);
/* Prints a warning, once, if the user named another tool there. */
void nvtx_environment_report(void);
/* Unsets it if nvtx_environment_set() set it and it was not changed since. */
void nvtx_environment_reset(void);

#endif
