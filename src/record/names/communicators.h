/*
 * Communicators of collectives: the scope in which a library such as NCCL launches on one is named
 * for it, and collectives below that scope are compared between its ranks. Tables of the process
 * that only grow; lookups take no lock.
 */
#ifndef RECORD_NAMES_COMMUNICATORS_H
#define RECORD_NAMES_COMMUNICATORS_H

#include <pthread.h>
#include <stdint.h>

extern pthread_mutex_t communicators_lock; /* guards all additions */

/* A communicator's number of ranks. `id` is equal in all ranks of it, and not 0. */
void communicators_note(uint64_t id, uint32_t ranks);
/* Finds or adds several communicators that are used together, with the sum of their ids. */
void communicators_note_several(uint64_t id, uint32_t count);
/* The frame of a scope on a communicator: "NAME [8 ranks]"; `name` if there are too many. */
uint32_t communicators_frame(uint32_t name, uint64_t id);
/* The communicator of the innermost such scope in a context; 0: there is none. */
uint64_t communicators_of(uint32_t context);

#endif
