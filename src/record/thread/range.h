/* A scope that a session waits for: it begins at the first entry of that name, and ends with it. */
#ifndef RECORD_THREAD_RANGE_H
#define RECORD_THREAD_RANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern _Atomic(const char *) range_name __attribute__((visibility("hidden"))); /* NULL: none */
extern _Atomic uint64_t range_token __attribute__((visibility("hidden")));     /* 0: not entered */

/*
 * Waits for `name`. `change` is called on the thread that enters it, and on the one that exits; it
 * returns when the session has begun, or ended. False if out of memory.
 */
bool range_await(const char *name, void (*change)(bool is_begin));
/* True if it is the name: its session has begun, and the caller sets range_token. */
bool range_begin(const char *name, size_t length);
void range_end(void);

#endif
