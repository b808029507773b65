/* Recorder interface for backends: counters of all live sessions, and the program's end. */
#ifndef RECORD_SETS_RECORD_COUNT_H
#define RECORD_SETS_RECORD_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "record/store/counters.h"

/* Adds to a counter, such as a loss, of every live session. From any thread. */
void record_count(enum counter counter, uint64_t more);

/* True once the sessions are being ended because the program is about to exit. From any thread. */
bool record_program_ends(void);

#endif
