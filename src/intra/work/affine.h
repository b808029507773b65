/*
 * Integers of a kernel as affine forms: a number plus multiples of atoms, which are what has no
 * fixed value: the number of the program, the iterations of loops and the positions in a tensor.
 * Points where such forms are not negative are counted without visiting them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AFFINE_TERMS 8u
#define AFFINE_BOUNDS 6u /* conditions that hold at once */

/* Numbers of atoms. */
#define ATOM_PROGRAM 0u /* x, y, z */
#define ATOM_TILE 3u    /* dimensions of a tensor */
#define TILE_RANK 5u
#define ATOM_LOOP 8u
#define LOOP_DEPTH 12u
#define ATOM_CARRIED 20u /* values that an iteration takes from its predecessor */
#define ATOM_COUNT 64u

#define ATOM_BIT(atom) (UINT64_C(1) << (atom))
#define ATOM_TILES (ATOM_BIT(ATOM_LOOP) - ATOM_BIT(ATOM_TILE))

struct affine {
	int64_t base;
	uint32_t count;
	uint8_t atoms[AFFINE_TERMS];
	int64_t factors[AFFINE_TERMS]; /* not 0 */
};

/* Each atom is at least 0 and less than its size; the size 0 is unknown. */
struct atom_sizes {
	int64_t of[ATOM_COUNT];
};

static inline struct affine affine_atom(uint32_t atom)
{
	return (struct affine){.count = 1, .atoms = {(uint8_t)atom}, .factors = {1}};
}

/* a += factor * b. False if it does not fit; then `a` is undefined. */
bool affine_add(struct affine *a, const struct affine *b, int64_t factor);
int64_t affine_factor(const struct affine *a, uint32_t atom);
/* The atoms in it, as bits. */
uint64_t affine_atoms(const struct affine *a);
/* The smallest and the largest value. False if they are unknown. */
bool affine_range(const struct affine *a, const struct atom_sizes *sizes, int64_t *low_out,
		  int64_t *high_out);
/* floor(a / b) for b > 0. */
int64_t floor_divided(int64_t a, int64_t b);

/* The number of points: the product of the atoms' sizes. */
double points_of_atoms(uint64_t atoms, const struct atom_sizes *sizes);
/*
 * The number of points where none of the forms is negative; NAN if that is unknown or takes more
 * than *steps, which decrease. `atoms` has all atoms of the forms.
 */
double points_count(const struct affine *forms, uint32_t count, uint64_t atoms,
		    const struct atom_sizes *sizes, uint64_t *steps);

/* ------------------------------------------------------------------ footprints */

/*
 * The bytes of memory that a kernel accesses, each counted once however often it is accessed: a
 * union of boxes, which are rows at equal distances, at equal distances, and so on.
 */
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
