/*
 * NVTX_INJECTION64_PATH, the variable by which NVTX finds its tool, in this process. The program's
 * other threads may read the environment at any time. Whoever calls these is in the start or stop
 * of one backend, so never two at a time.
 */
#ifndef RECORD_NVTX_NVTX_ENVIRONMENT_H
#define RECORD_NVTX_NVTX_ENVIRONMENT_H

/* Names this library, unless the variable is set already. */
void nvtx_environment_set(void);
/* Says, once, if the user named another tool there. */
void nvtx_environment_say(void);
/* Takes it out if nvtx_environment_set() put it there and nobody changed it since. */
void nvtx_environment_reset(void);

#endif
