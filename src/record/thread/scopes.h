/* Open scopes of the calling thread. */
#ifndef RECORD_THREAD_SCOPES_H
#define RECORD_THREAD_SCOPES_H

#include <stdint.h>

/*
 * The serial of the scope entry that the token means now, on the calling thread; 0: none. A token
 * may recur after its scope has ended, its serial does not.
 */
uint32_t scopes_serial(uint64_t token);

#endif
