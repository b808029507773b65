/* Running a function with its own descriptors, which no other thread can close in between. */
#ifndef BASE_OWN_DESCRIPTORS_H
#define BASE_OWN_DESCRIPTORS_H

#include <stdbool.h>

/*
 * Runs `job(data)` in a process that has the memory of this one and a copy of its descriptors,
 * while the calling thread waits; no signal handler runs in the meantime. The job may make system
 * calls and change memory, and must not take a lock. False if there can be no such process.
 */
bool own_descriptors_run(void (*job)(void *data), void *data);

/*
 * Standard streams of the commands. If one is closed when a command starts, the next file that is
 * opened gets its number: messages would then go into an output, or the end of a pipe would be
 * replaced.
 */

/* Opens closed streams. Reads and writes there fail, and an executed program finds them closed. */
void standard_occupy(void);

#endif
