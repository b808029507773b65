/*
 * Durations of collectives, by occurrence: the waiting of ranks is computed from them when profiles
 * of ranks are merged. Under the session's lock, after a kernel's record has arrived.
 */
#ifndef RECORD_STORE_STORE_COLLECTIVES_H
#define RECORD_STORE_STORE_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/region.h"

struct store;

struct collective_series {
	uint32_t first_row; /* of TABLE_DURATIONS; 0: none */
	uint32_t last_row;
	uint32_t rows;
	uint32_t stride;
	uint32_t count; /* occurrences so far, recorded or not */
	uint32_t epoch; /* the last one's */
	uint32_t node;
	uint32_t next;  /* series + 1 of the node with another communicator; 0: none */
	uint32_t group; /* string of the file: the communicator; 0: not known */
	uint64_t communicator;
};

struct collectives {
	struct region series_of_node; /* u32 per node: its newest series + 1 */
	struct region kind_of_frame;  /* u8 per frame: 0 not known, 1 no collective, 2 one */
	struct collective_series *series;
	size_t count, capacity;
	uint32_t free_row;
	uint32_t rows; /* in use */
};

int store_collectives_init(struct store *store, struct proton_error *err);
void store_collectives_fini(struct store *store);
/* Adds an occurrence if the node is a collective's kernel; `scopes` tells the communicator. */
void store_collectives_kernel(struct store *store, uint32_t node, uint32_t scopes, uint32_t epoch,
			      uint64_t duration_ns);
/* Adds one that was timed on the host, in a node of any name. */
void store_collectives_add(struct store *store, uint32_t node, uint32_t epoch, uint32_t flags,
			   uint64_t duration_ns);
/* Any thread: true if the node has occurrences, which need the lock. */
bool store_collectives_has(const struct store *store, uint32_t node);
/* Drops durations that ended in this epoch. */
void store_collectives_drop_epoch(struct store *store, uint32_t epoch);
/* True if a kernel of that name is a collective: by the table here, or by PROTON_COLLECTIVES. */
bool store_collectives_match(const char *name);

#endif
