/* Numbers of HIP streams, by the handle that launches pass. */
#ifndef BACKEND_AMD_STREAM_NUMBERS_H
#define BACKEND_AMD_STREAM_NUMBERS_H

#include <stdint.h>

/* Numbers from here on are one: more streams are not told apart. */
#define STREAM_NUMBER_MAX 4095u

/*
 * 0 for the default stream, else counted from 1 in order of first use. A stream at the address that
 * a destroyed one had has the same number. On the launching thread: a look-up takes no lock.
 */
uint32_t stream_numbers_get(uint64_t handle);
/* In the child of a fork: a thread of the parent may have held the lock. */
void stream_numbers_forked(void);

#endif
