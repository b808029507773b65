/*
 * The function that holds the program's threads, given by proton_holder_set(): a Python program's
 * threads stop at the GIL between two calls of the driver.
 */
#ifndef RECORD_THREAD_HOLDER_H
#define RECORD_THREAD_HOLDER_H

#include <stdbool.h>

/*
 * Holds all threads that the holder covers until holder_end(), which the same thread calls. False:
 * there is no holder, or it cannot hold now. Takes no lock of the recorder that a covered thread
 * could have while it waits; the caller must have none.
 */
bool holder_begin(void);
void holder_end(void);
/* True if holder_begin() on another thread would hold this one. */
bool holder_covers_here(void);
bool holder_is_set(void);
/* In the child of a fork. */
void holder_fork_child(void);

#endif
