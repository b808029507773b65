/* Affine forms, and the number of points where they are not negative. */
#include "intra/work/affine.h"

#include <math.h>
#include <stdlib.h>

/* Larger values are not handled: sums of two have to fit. */
#define AFFINE_MAX (INT64_MAX / 4)

bool affine_add(struct affine *a, const struct affine *b, int64_t factor)
{
	int64_t more;

	if (__builtin_mul_overflow(b->base, factor, &more) ||
	    __builtin_add_overflow(a->base, more, &a->base))
		return false;
	for (uint32_t i = 0; i < b->count && factor; i++) {
		uint32_t at = 0;

		if (__builtin_mul_overflow(b->factors[i], factor, &more))
			return false;
		while (at < a->count && a->atoms[at] != b->atoms[i])
			at++;
		if (at == a->count) {
			if (at == AFFINE_TERMS)
				return false;
			a->atoms[a->count++] = b->atoms[i];
			a->factors[at] = more;
		} else if (__builtin_add_overflow(a->factors[at], more, &a->factors[at])) {
			return false;
		} else if (!a->factors[at]) {
			a->count--;
			a->atoms[at] = a->atoms[a->count];
			a->factors[at] = a->factors[a->count];
		}
	}
	return true;
}

int64_t affine_factor(const struct affine *a, uint32_t atom)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->atoms[i] == atom)
			return a->factors[i];
	return 0;
}

uint64_t affine_atoms(const struct affine *a)
{
	uint64_t atoms = 0;

	for (uint32_t i = 0; i < a->count; i++)
		atoms |= ATOM_BIT(a->atoms[i]);
	return atoms;
}

bool affine_range(const struct affine *a, const struct atom_sizes *sizes, int64_t *low_out,
		  int64_t *high_out)
{
	int64_t low = a->base;
	int64_t high = a->base;

	for (uint32_t i = 0; i < a->count; i++) {
		int64_t size = sizes->of[a->atoms[i]];
		int64_t *end = a->factors[i] < 0 ? &low : &high;
		int64_t more;

		if (size <= 0 || __builtin_mul_overflow(a->factors[i], size - 1, &more) ||
		    __builtin_add_overflow(*end, more, end))
			return false;
	}
	if (low < -AFFINE_MAX || high > AFFINE_MAX)
		return false;
	*low_out = low;
	*high_out = high;
	return true;
}

int64_t floor_divided(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* ------------------------------------------------------------------ counting */

double points_of_atoms(uint64_t atoms, const struct atom_sizes *sizes)
{
	double points = 1;

	for (; atoms; atoms &= atoms - 1)
		points *= (double)sizes->of[__builtin_ctzll(atoms)];
	return points;
}

/* The values of an atom, from low to high. */
struct interval {
	int64_t low;
	int64_t high;
};

/*
 * The form's values are in [low, high] without the atom. Limits the atom to values for which the
 * form is certainly, and possibly, not negative.
 */
static void limit_atom(int64_t factor, int64_t low, int64_t high, struct interval *certain,
		       struct interval *possible)
{
	int64_t limit;

	if (factor > 0) {
		limit = -floor_divided(low, factor);
		certain->low = limit > certain->low ? limit : certain->low;
		limit = -floor_divided(high, factor);
		possible->low = limit > possible->low ? limit : possible->low;
	} else if (factor < 0) {
		limit = floor_divided(low, -factor);
		certain->high = limit < certain->high ? limit : certain->high;
		limit = floor_divided(high, -factor);
		possible->high = limit < possible->high ? limit : possible->high;
	} else if (low < 0) {
		certain->high = certain->low - 1;
	}
}

static uint32_t largest_term(const struct affine *form)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < form->count; i++)
		if (llabs(form->factors[i]) > llabs(form->factors[largest]))
			largest = i;
	return form->atoms[largest];
}

/* Forms that have atoms in common. One atom is fixed at each value that decides nothing. */
static double count_connected(const struct affine *forms, uint32_t count, uint64_t atoms,
			      const struct atom_sizes *sizes, uint64_t *steps)
{
	uint32_t atom = largest_term(&forms[0]);
	struct interval certain = {0, sizes->of[atom] - 1};
	struct interval possible = certain;
	struct affine fixed[AFFINE_BOUNDS];
	int64_t factors[AFFINE_BOUNDS];
	double points = 0;

	atoms &= ~ATOM_BIT(atom);
	for (uint32_t i = 0; i < count; i++) {
		const struct affine one = affine_atom(atom);
		int64_t low, high;

		factors[i] = affine_factor(&forms[i], atom);
		fixed[i] = forms[i];
		if (!affine_add(&fixed[i], &one, -factors[i]) ||
		    !affine_range(&fixed[i], sizes, &low, &high))
			return NAN;
		limit_atom(factors[i], low, high, &certain, &possible);
	}
	if (certain.low <= certain.high)
		points = (double)(certain.high - certain.low + 1) * points_of_atoms(atoms, sizes);
	for (int64_t value = possible.low; value <= possible.high; value++) {
		struct affine here[AFFINE_BOUNDS];

		if (value >= certain.low && value <= certain.high) {
			value = certain.high;
			continue;
		}
		if (!*steps)
			return NAN;
		--*steps;
		for (uint32_t i = 0; i < count; i++) {
			here[i] = fixed[i];
			here[i].base += factors[i] * value;
		}
		points += points_count(here, count, atoms, sizes, steps);
	}
	return points;
}

/* Moves the forms that share atoms with the first one, directly or not, to `out`. */
static uint32_t take_connected(struct affine *forms, uint32_t *count, struct affine *out,
			       uint64_t *atoms_out)
{
	uint64_t atoms = affine_atoms(&forms[0]);
	uint32_t found = 0;
	uint32_t before;

	do {
		uint32_t left = 0;

		before = found;
		for (uint32_t i = 0; i < *count; i++) {
			if (affine_atoms(&forms[i]) & atoms) {
				atoms |= affine_atoms(&forms[i]);
				out[found++] = forms[i];
			} else {
				forms[left++] = forms[i];
			}
		}
		*count = left;
	} while (found > before);
	*atoms_out = atoms;
	return found;
}

double points_count(const struct affine *forms, uint32_t count, uint64_t atoms,
		    const struct atom_sizes *sizes, uint64_t *steps)
{
	struct affine left[AFFINE_BOUNDS];
	uint32_t left_count = 0;
	double points = 1;

	for (uint32_t i = 0; i < count; i++) {
		int64_t low, high;

		if (!affine_range(&forms[i], sizes, &low, &high))
			return NAN;
		if (high < 0)
			return 0;
		if (low < 0)
			left[left_count++] = forms[i];
	}
	while (left_count) {
		struct affine connected[AFFINE_BOUNDS];
		uint64_t their_atoms;
		uint32_t found = take_connected(left, &left_count, connected, &their_atoms);

		points *= count_connected(connected, found, their_atoms, sizes, steps);
		atoms &= ~their_atoms;
	}
	return points * points_of_atoms(atoms, sizes);
}
