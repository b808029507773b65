/* Number of reader threads. */
#ifndef BACKEND_INTRA_READER_THREADS_H
#define BACKEND_INTRA_READER_THREADS_H

#include <stdint.h>

#define READER_THREADS_MAX 4u

/* Maximum on this machine: a quarter of the cores that the process may use. */
uint32_t reader_threads_limit(void);

#endif
