/* Unions of boxes of addresses. */
#include "intra/work/affine.h"

#include <math.h>

#include "base/array.h"

#define BOXES_MAX 65536u /* more are merged before others come */
#define ROWS_MAX 1048576u
#define ADDRESS_MAX (INT64_MAX / 8) /* distances have to fit */

/* ------------------------------------------------------------------ one access */

ARRAY_ORDER(compare_dimensions, struct box_dimension, ORDER_OF(a->stride, b->stride))

/* Adds a dimension. False if the box has no more, or the numbers do not fit. */
static bool add_dimension(struct box *box, int64_t stride, int64_t count)
{
	int64_t back;

	if (!stride || count == 1)
		return true;
	if (stride < 0) {
		if (__builtin_mul_overflow(stride, count - 1, &back) ||
		    __builtin_add_overflow(box->base, back, &box->base))
			return false;
		stride = -stride;
	}
	if (box->count == BOX_DIMENSIONS)
		return false;
	box->at[box->count++] = (struct box_dimension){stride, count};
	return true;
}

/*
 * Sorts the dimensions, and makes one of two that are adjacent or overlap. False if points of two
 * dimensions may coincide otherwise, or the numbers do not fit.
 */
static bool join_dimensions(struct box *box)
{
	uint32_t count = 1;
	int64_t extent; /* all dimensions so far */

	ARRAY_SORT(box->at, box->count, compare_dimensions);
	if (box->at[0].stride != 1)
		return false;
	extent = box->at[0].count;
	for (uint32_t i = 1; i < box->count; i++) {
		struct box_dimension *last = &box->at[count - 1];
		struct box_dimension next = box->at[i];
		int64_t more;

		if (__builtin_mul_overflow(next.stride, next.count - 1, &more) ||
		    __builtin_add_overflow(extent, more, &extent) || extent > ADDRESS_MAX)
			return false;
		if (next.stride % last->stride == 0 && next.stride / last->stride <= last->count)
			last->count += next.stride / last->stride * (next.count - 1);
		else if (next.stride < extent - more)
			return false;
		else
			box->at[count++] = next;
	}
	box->count = count;
	return true;
}

/* Atoms that occur only together, as multiples of one number: index = base + step * [0, count). */
struct index {
	int64_t base;
	int64_t step;
	int64_t count;
};

/* The index with the values of a form; false if these have gaps. */
static bool read_index(const struct affine *form, const struct atom_sizes *sizes, struct index *out)
{
	struct box box = {.base = form->base};

	for (uint32_t i = 0; i < form->count; i++)
		if (!add_dimension(&box, form->factors[i], sizes->of[form->atoms[i]]))
			return false;
	*out = (struct index){box.base, 1, 1};
	if (!box.count)
		return true;
	ARRAY_SORT(box.at, box.count, compare_dimensions);
	out->step = box.at[0].stride;
	out->count = box.at[0].count;
	for (uint32_t i = 1; i < box.count; i++) {
		if (box.at[i].stride % out->step || box.at[i].stride / out->step > out->count)
			return false;
		out->count += box.at[i].stride / out->step * (box.at[i].count - 1);
	}
	return true;
}

/* address = ratio * form + rest, where the rest has none of the form's atoms. */
static bool split_address(const struct affine *address, const struct affine *form,
			  int64_t *ratio_out, struct affine *rest_out)
{
	int64_t factor = affine_factor(address, form->atoms[0]);

	if (factor % form->factors[0])
		return false;
	*ratio_out = factor / form->factors[0];
	*rest_out = *address;
	return affine_add(rest_out, form, -*ratio_out) &&
	       !(affine_atoms(rest_out) & affine_atoms(form));
}

/*
 * Whether two bounds limit one index: the lower is x >= 0 and the upper, of which the factors have
 * other signs, x <= n.
 */
static bool is_opposite(const struct affine *a, const struct affine *b, int64_t *sum_out)
{
	struct affine sum = *a;

	if (!affine_add(&sum, b, 1) || sum.count)
		return false;
	*sum_out = sum.base;
	return true;
}

/*
 * Applies the last bound, and its opposite for the same index, to one new dimension of the box.
 * False if the set is not a box.
 */
static bool apply_bound(struct footprint_access *access, const struct atom_sizes *sizes,
			struct box *box, bool *is_empty_out)
{
	struct affine form = access->bounds[--access->bound_count];
	struct affine rest;
	struct index index;
	int64_t ratio, first_address, stride;
	int64_t sum = INT64_MAX;

	for (uint32_t i = 0; i < access->bound_count; i++) {
		if (is_opposite(&form, &access->bounds[i], &sum)) {
			access->bounds[i] = access->bounds[--access->bound_count];
			break;
		}
	}
	for (uint32_t i = 0; i < access->bound_count; i++)
		if (affine_atoms(&access->bounds[i]) & affine_atoms(&form))
			return false;
	if (!split_address(&access->address, &form, &ratio, &rest) ||
	    !read_index(&form, sizes, &index))
		return false;
	/* 0 <= base + step * i <= sum */
	int64_t first = -floor_divided(index.base, index.step);
	first = first > 0 ? first : 0;
	int64_t last = index.count - 1;
	if (sum < INT64_MAX && floor_divided(sum - index.base, index.step) < last)
		last = floor_divided(sum - index.base, index.step);
	*is_empty_out = first > last;
	access->address = rest;
	if (*is_empty_out || !ratio)
		return true;
	if (__builtin_mul_overflow(ratio, index.base + index.step * first, &first_address) ||
	    __builtin_mul_overflow(ratio, index.step, &stride))
		return false;
	return !__builtin_add_overflow(access->address.base, first_address,
				       &access->address.base) &&
	       add_dimension(box, stride, last - first + 1);
}

/* False if the set is not a box. */
static bool read_box(struct footprint_access *access, const struct atom_sizes *sizes,
		     struct box *box, bool *is_empty_out)
{
	uint32_t kept = 0;

	*is_empty_out = false;
	for (uint32_t i = 0; i < access->bound_count; i++) {
		int64_t low, high;

		if (!affine_range(&access->bounds[i], sizes, &low, &high))
			return false;
		*is_empty_out |= high < 0;
		if (low < 0)
			access->bounds[kept++] = access->bounds[i];
	}
	access->bound_count = kept;
	*box = (struct box){.count = 1, .at[0] = {1, access->bytes}};
	while (access->bound_count && !*is_empty_out)
		if (!apply_bound(access, sizes, box, is_empty_out))
			return false;
	for (uint32_t i = 0; i < access->address.count; i++)
		if (!add_dimension(box, access->address.factors[i],
				   sizes->of[access->address.atoms[i]]))
			return false;
	return !__builtin_add_overflow(box->base, access->address.base, &box->base) &&
	       box->base > -ADDRESS_MAX && box->base < ADDRESS_MAX && join_dimensions(box);
}

/* ------------------------------------------------------------------ unions */

/* Boxes that differ only in their base and in the count of one dimension. */
static int compare_shapes(const struct box *a, const struct box *b, uint32_t but)
{
	int order = ORDER_OF(a->count, b->count);

	for (uint32_t i = 0; i < a->count && !order; i++)
		order = ORDER_OF(a->at[i].stride, b->at[i].stride)
				?: (i == but ? 0 : ORDER_OF(a->at[i].count, b->at[i].count));
	return order;
}

static int compare_boxes(const void *a, const void *b, void *but)
{
	const struct box *one = a;
	const struct box *other = b;

	return compare_shapes(one, other, *(const uint32_t *)but)
		       ?: ORDER_OF(one->base, other->base);
}

ARRAY_ORDER(compare_bases, struct box, ORDER_OF(a->base, b->base))

/* Extends `a` by `b`, which begins later, in a dimension. False if they are too far apart. */
static bool extend(struct box *a, const struct box *b, uint32_t dimension)
{
	struct box_dimension *along = &a->at[dimension];
	int64_t distance = b->base - a->base;

	if (dimension >= a->count || distance % along->stride ||
	    distance / along->stride > along->count)
		return false;
	int64_t end = distance / along->stride + b->at[dimension].count;
	along->count = end > along->count ? end : along->count;
	return true;
}

static void merge_along(struct footprint *footprint, uint32_t dimension)
{
	size_t kept = 0;

	qsort_r(footprint->boxes, footprint->count, sizeof(*footprint->boxes), compare_boxes,
		&dimension);
	for (size_t i = 1; i < footprint->count; i++) {
		struct box *last = &footprint->boxes[kept];
		const struct box *next = &footprint->boxes[i];

		if (compare_shapes(last, next, dimension) || !extend(last, next, dimension))
			footprint->boxes[++kept] = *next;
	}
	footprint->count = footprint->count ? kept + 1 : 0;
	for (size_t i = 0; i < footprint->count; i++)
		footprint->is_unknown |= !join_dimensions(&footprint->boxes[i]);
}

static void merge(struct footprint *footprint)
{
	size_t before;

	do {
		before = footprint->count;
		for (uint32_t i = 0; i < BOX_DIMENSIONS && footprint->count > 1; i++)
			merge_along(footprint, i);
	} while (footprint->count < before);
}

bool footprint_add(struct footprint *footprint, const struct footprint_access *access,
		   const struct atom_sizes *sizes)
{
	struct footprint_access left = *access;
	struct box box;
	bool is_empty;

	if (footprint->is_unknown)
		return true;
	if (!read_box(&left, sizes, &box, &is_empty)) {
		footprint->is_unknown = !is_empty;
		return true;
	}
	if (is_empty)
		return true;
	if (footprint->count == BOXES_MAX) {
		merge(footprint);
		footprint->is_unknown |= footprint->count > BOXES_MAX / 2;
	}
	return ARRAY_ADD(footprint->boxes, footprint->count, box);
}

static double points_of(const struct box *box, uint32_t from)
{
	double points = 1;

	for (uint32_t i = from; i < box->count; i++)
		points *= (double)box->at[i].count;
	return points;
}

static int64_t end_of(const struct box *box)
{
	int64_t end = box->base + 1;

	for (uint32_t i = 0; i < box->count; i++)
		end += box->at[i].stride * (box->at[i].count - 1);
	return end;
}

/* Appends the boxes of one dimension that a box consists of; false if out of memory. */
static bool add_rows(struct footprint *rows, const struct box *box)
{
	int64_t at[BOX_DIMENSIONS] = {0};
	uint32_t i = 0;

	while (i < box->count) {
		struct box row = {.base = box->base, .count = 1, .at[0] = box->at[0]};

		for (i = 1; i < box->count; i++)
			row.base += box->at[i].stride * at[i];
		if (!ARRAY_ADD(rows->boxes, rows->count, row))
			return false;
		for (i = 1; i < box->count && ++at[i] == box->at[i].count; i++)
			at[i] = 0;
	}
	return true;
}

/* The bytes of boxes that may overlap: by their rows. */
static double bytes_of_rows(const struct footprint *footprint)
{
	AT_END(footprint_fini) struct footprint rows = {0};
	double row_count = 0, bytes = 0;
	int64_t covered = 0;

	for (size_t i = 0; i < footprint->count; i++)
		row_count += points_of(&footprint->boxes[i], 1);
	if (row_count > ROWS_MAX)
		return NAN;
	for (size_t i = 0; i < footprint->count && !isnan(bytes); i++)
		if (!add_rows(&rows, &footprint->boxes[i]))
			bytes = NAN;
	ARRAY_SORT(rows.boxes, rows.count, compare_bases);
	for (size_t i = 0; i < rows.count; i++) {
		int64_t first = rows.boxes[i].base;
		int64_t end = end_of(&rows.boxes[i]);

		first = i && covered > first ? covered : first;
		covered = end > first ? end : first;
		bytes += (double)(covered - first);
	}
	return bytes;
}

double footprint_bytes(struct footprint *footprint)
{
	double bytes = 0;

	merge(footprint);
	if (footprint->is_unknown)
		return NAN;
	ARRAY_SORT(footprint->boxes, footprint->count, compare_bases);
	for (size_t i = 0; i < footprint->count; i++) {
		if (i && end_of(&footprint->boxes[i - 1]) > footprint->boxes[i].base)
			return bytes_of_rows(footprint);
		bytes += points_of(&footprint->boxes[i], 0);
	}
	return bytes;
}

void footprint_fini(struct footprint *footprint)
{
	free(footprint->boxes);
	*footprint = (struct footprint){0};
}
