/*
 * Periodic flush thread: moves records to the profile while the program runs, not only when a
 * session is flushed. CUPTI returns a buffer when it is full, which never happens in a small
 * program. A program that is killed or calls _exit() loses its buffers.
 */
#ifndef BACKEND_CUDA_FLUSH_THREAD_H
#define BACKEND_CUDA_FLUSH_THREAD_H

#include "backend/cuda/cupti_api.h"

/* Starts a thread that flushes CUPTI's complete records while kernels are launched. */
void flush_thread_start(void);
/* Ends the thread and waits for it. */
void flush_thread_stop(void);

#endif
