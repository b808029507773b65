/*
 * Records reach the profile while the program runs, and not only when somebody flushes: CUPTI hands
 * a buffer over when it is full, which a small program never sees, and a program that is killed or
 * leaves by _exit() takes what is in its buffers along.
 */
#ifndef BACKEND_CUDA_FLUSH_THREAD_H
#define BACKEND_CUDA_FLUSH_THREAD_H

#include "backend/cuda/cupti_api.h"

/* A thread that asks CUPTI for what is complete, while something is launched. */
void periodic_start(const struct cupti_api *api);
/* Waits for the thread's end. */
void periodic_stop(void);

#endif
