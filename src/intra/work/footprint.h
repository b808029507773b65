/*
 * The bytes of memory that a kernel accesses, each counted once however often it is accessed: a
 * union of boxes, which are rows at equal distances, at equal distances, and so on.
 */
#ifndef INTRA_WORK_FOOTPRINT_H
#define INTRA_WORK_FOOTPRINT_H

#include <stddef.h>

#include "intra/work/affine.h"

#define BOX_DIMENSIONS 6u

struct box {
	int64_t base;
	uint32_t
		count; /* of dimensions, by increasing stride; the first one is of adjacent bytes */
	struct box_dimension {
		int64_t stride;
		int64_t count;
	} at[BOX_DIMENSIONS];
};

/* Initialized with zeros. */
struct footprint {
	struct box *boxes;
	size_t count;
	size_t capacity;
	bool is_unknown; /* something in it is not a box */
};

/* A set of addresses: `bytes` from `address` on, for all atoms for which no bound is negative. */
struct footprint_access {
	struct affine address;
	int64_t bytes;
	struct affine bounds[AFFINE_BOUNDS];
	uint32_t bound_count;
	uint64_t atoms;
};

/* False if out of memory. */
bool footprint_add(struct footprint *footprint, const struct footprint_access *access,
		   const struct atom_sizes *sizes);
/* The number of bytes; NAN: unknown. Changes the boxes. */
double footprint_bytes(struct footprint *footprint);
void footprint_fini(struct footprint *footprint);

#endif
