/* Points and footprints of affine forms, compared with visiting every point. */

#include "intra/work/affine.h"
#include "unit/tap.h"

#define ATOMS 4u
#define SPACE 4096 /* of addresses */

static uint32_t seed = 1;

static int64_t any(int64_t low, int64_t high)
{
	seed = seed * 1664525u + 1013904223u;
	return low + (int64_t)(seed >> 8) % (high - low + 1);
}

static struct affine any_form(int64_t low, int64_t high)
{
	struct affine form = {.base = any(-8, 24)};

	for (uint8_t i = 0; i < ATOMS; i++) {
		const struct affine atom = {.count = 1, .atoms = {i}, .factors = {1}};

		CHECK(affine_add(&form, &atom, any(0, 2) ? any(low, high) : 0));
	}
	return form;
}

static int64_t value_at(const struct affine *form, const int64_t *point)
{
	int64_t value = form->base;

	for (uint32_t i = 0; i < form->count; i++)
		value += form->factors[i] * point[form->atoms[i]];
	return value;
}

/* Calls `visit` for each point where no form is negative; returns the number of them. */
static double visit(const struct affine *forms, uint32_t count, const struct atom_sizes *sizes,
		    const struct affine *address, int64_t bytes, char *seen)
{
	int64_t at[ATOMS] = {0};
	double points = 0;
	uint32_t i = 0;

	while (i < ATOMS) {
		bool is_inside = true;

		for (uint32_t f = 0; f < count; f++)
			is_inside &= value_at(&forms[f], at) >= 0;
		points += is_inside;
		for (int64_t b = 0; b < bytes && is_inside && seen; b++)
			seen[value_at(address, at) + b + SPACE / 2] = 1;
		for (i = 0; i < ATOMS && ++at[i] == sizes->of[i]; i++)
			at[i] = 0;
	}
	return points;
}

TEST(points_are_those_that_a_visit_finds)
{
	for (uint32_t round = 0; round < 2000; round++) {
		struct atom_sizes sizes = {{any(1, 7), any(1, 7), any(1, 7), any(1, 7)}};
		struct affine forms[3];
		uint32_t count = (uint32_t)any(0, 3);
		uint64_t steps = 100000;

		for (uint32_t i = 0; i < count; i++)
			forms[i] = any_form(-9, 9);
		CHECK_EQ(points_count(forms, count, 15, &sizes, &steps),
			 visit(forms, count, &sizes, NULL, 0, NULL));
	}
}

TEST(digits_of_a_large_number_take_few_steps)
{
	const struct atom_sizes sizes = {{1024, 1000000, 1000}};

	/* x + 1024 (y + 1000000 z) <= 999 */
	const struct affine form = {
		.base = 999, .count = 3, .atoms = {0, 1, 2}, .factors = {-1, -1024, -1024000000}};
	uint64_t steps = 10;

	CHECK_EQ(points_count(&form, 1, 7, &sizes, &steps), 1000);
}

TEST(points_are_unknown_without_steps)
{
	const struct atom_sizes sizes = {{1000, 1000}};
	const struct affine form = {.base = 0, .count = 2, .atoms = {0, 1}, .factors = {1, -1}};
	uint64_t steps = 3;

	CHECK(isnan(points_count(&form, 1, 3, &sizes, &steps)));
}

/* A known footprint has the bytes of a visit. Many of these simple accesses are known. */
TEST(footprints_are_those_that_a_visit_finds)
{
	uint32_t known = 0;

	for (uint32_t round = 0; round < 3000; round++) {
		struct footprint footprint = {0};
		char seen[SPACE] = {0};
		double expected = 0;
		double bytes;

		for (int64_t i = any(1, 4); i > 0; i--) {
			struct atom_sizes sizes = {{any(1, 5), any(1, 5), any(1, 5), any(1, 5)}};
			struct footprint_access access = {
				.address = any_form(-40, 40), .bytes = any(1, 4), .atoms = 15};

			if (any(0, 1)) {
				access.bounds[access.bound_count++] = any_form(-3, 3);
				if (any(0, 1))
					access.address = access.bounds[0];
			}
			CHECK(footprint_add(&footprint, &access, &sizes));
			visit(access.bounds, access.bound_count, &sizes, &access.address,
			      access.bytes, seen);
		}
		bytes = footprint_bytes(&footprint);
		for (uint32_t i = 0; i < SPACE; i++)
			expected += seen[i];
		known += !isnan(bytes);
		if (!isnan(bytes))
			CHECK_EQ(bytes, expected);
		footprint_fini(&footprint);
	}
	CHECK_LT(300, known);
}

TEST(tiles_of_a_matrix_become_the_matrix)
{
	struct footprint footprint = {0};
	const struct atom_sizes sizes = {{16, 32}};

	for (int64_t row = 0; row < 8; row++) {
		for (int64_t column = 0; column < 4; column++) {
			struct footprint_access access = {
				.address = {.base = row * 16 * 400 + column * 64,
					    .count = 2,
					    .atoms = {0, 1},
					    .factors = {400, 2}},
				.bytes = 2,
				.atoms = 3};

			CHECK(footprint_add(&footprint, &access, &sizes));
		}
	}
	CHECK_EQ(footprint_bytes(&footprint), 8 * 16 * 4 * 64);
	CHECK_EQ(footprint.count, 1);
	footprint_fini(&footprint);
}
