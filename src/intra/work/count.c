/* Counting what one operation does: arithmetic, matrix multiplications, accesses to memory. */
#include "intra/work/run.h"

#include <math.h>

static void add(struct run *run, struct work_range *range, double low, double high)
{
	if (run->muted)
		return;
	if (!run->unsure)
		range->low += low;
	range->high += run->unbounded && high > 0 ? INFINITY : high;
}

static double elements_of(const struct program_type *type)
{
	double elements = 1;

	for (uint32_t i = 0; i < type->rank; i++)
		elements *= (double)type->shape[i];
	return elements;
}

/* How often the current operation is executed in all programs. */
static double executions(const struct run *run)
{
	return points_of_atoms(run->active, &run->evaluation.sizes);
}

static uint32_t width_of(uint32_t bits)
{
	uint32_t width = 0;

	while (width + 1 < WORK_WIDTHS && 4u << width < bits)
		width++;
	return width;
}

static void add_flops(struct run *run, const struct program_line *line, double elements)
{
	double flops = line->flops * elements * executions(run);

	if (line->types[0].is_float)
		add(run, &run->work->others[width_of(line->types[0].bits)], flops, flops);
}

static void add_dot(struct run *run, const struct program_line *line)
{
	const struct program_type *result = &line->types[1];
	double flops = 2 * elements_of(&line->types[0]) * (double)line->number * executions(run);

	if (result->rank)
		flops *= (double)result->shape[result->rank - 1];
	add(run, &run->work->dots[width_of(line->types[0].bits / (uint32_t)line->number)], flops,
	    flops);
}

/* The operation that combines two elements is executed for all but one of each result's. */
static void add_reduction(struct run *run, const struct program_line *line)
{
	const struct program_line *lines = run->program->lines;
	uint32_t first = (uint32_t)(line - lines) + 1;
	double combined = elements_of(&line->types[0]);
	double results = elements_of(&line->types[1]);

	if (line->op == OP_SCAN && line->number < line->types[0].rank)
		results = combined / (double)line->types[0].shape[line->number];
	for (uint32_t i = first; i < line->end && line->end != PROGRAM_NO_LINE; i++) {
		if (lines[i].op == OP_UNKNOWN || lines[i].op == OP_IF)
			count_anything(run);
		add_flops(run, &lines[i], combined - results);
	}
}

/* ------------------------------------------------------------------ memory */

/* `mask`: NULL if it is unknown. */
static void add_access(struct run *run, const struct value *pointer, const struct value *mask,
		       const struct program_type *type, bool is_store)
{
	struct evaluation *evaluation = &run->evaluation;
	uint64_t atoms = run->active;
	uint32_t bytes = (type->bits + 7) / 8;
	double points = 0;
	struct footprint_access access;

	if (run->muted)
		return;
	for (uint32_t i = 0; i < type->rank; i++)
		atoms |= ATOM_BIT(ATOM_TILE + i);
	double all = points_of_atoms(atoms, &evaluation->sizes);
	if (mask)
		points = points_count(mask->bounds, mask->bound_count, atoms, &evaluation->sizes,
				      &run->steps);
	add(run, &run->work->requested[is_store], mask && !isnan(points) ? points * bytes : 0,
	    (mask && !isnan(points) ? points : all) * bytes);
	if (all == 0 || (mask && points == 0))
		return;
	if (!mask || pointer->kind != VALUE_POINTER || run->unsure || run->unbounded) {
		run->is_footprint_unknown[is_store] = true;
		return;
	}
	access.bytes = bytes;
	access.atoms = atoms;
	access.address = pointer->form;
	access.bound_count = mask->bound_count;
	for (uint32_t i = 0; i < mask->bound_count; i++)
		access.bounds[i] = mask->bounds[i];
	if (!footprint_add(&run->footprints[2 * pointer->argument + is_store], &access,
			   &evaluation->sizes))
		run->is_out_of_memory = true;
}

static void add_plain_access(struct run *run, const struct program_line *line, uint32_t at_mask)
{
	struct value mask;
	bool is_known = true;

	mask.bound_count = 0;
	if (line->operand_count > at_mask)
		is_known = value_as_mask(operand_of(&run->evaluation, line, at_mask), &mask);
	for (uint32_t is_store = line->op == OP_STORE; is_store <= (line->op != OP_LOAD);
	     is_store++)
		add_access(run, operand_of(&run->evaluation, line, 0), is_known ? &mask : NULL,
			   &line->types[0], is_store);
}

/* One dimension of a descriptor's block: its address, and that it is within the tensor. */
static bool add_block_dimension(struct value *pointer, struct value *mask,
				const struct value *index, const struct value *size,
				const struct value *stride, uint32_t dimension, int64_t bytes)
{
	struct affine position = index->form;
	const struct affine tile = affine_atom(ATOM_TILE + dimension);
	struct value bounds = {.kind = VALUE_MASK, .bound_count = 2};
	int64_t step;

	if (index->kind != VALUE_NUMBER || size->kind != VALUE_NUMBER ||
	    stride->kind != VALUE_NUMBER || size->form.count || stride->form.count ||
	    !affine_add(&position, &tile, 1))
		return false;
	bounds.bounds[0] = position;
	bounds.bounds[1] = size->form;
	return !__builtin_mul_overflow(stride->form.base, bytes, &step) &&
	       affine_add(&bounds.bounds[1], &position, -1) &&
	       !__builtin_sub_overflow(bounds.bounds[1].base, 1, &bounds.bounds[1].base) &&
	       mask_and(mask, &bounds) && affine_add(&pointer->form, &position, step);
}

static void add_block_access(struct run *run, const struct program_line *line)
{
	struct evaluation *evaluation = &run->evaluation;
	const struct value *descriptor = operand_of(evaluation, line, 0);
	const struct program_type *type = &line->types[0];
	struct program_line parts = {.first_operand = descriptor->argument,
				     .operand_count = 1 + 2 * type->rank};
	struct value pointer = {.kind = VALUE_UNKNOWN};
	struct value mask = {.kind = VALUE_MASK};
	bool is_known = descriptor->kind == VALUE_DESCRIPTOR &&
			descriptor->argument + parts.operand_count <= run->program->operand_count;

	if (is_known)
		pointer = *operand_of(evaluation, &parts, 0);
	is_known = is_known && pointer.kind == VALUE_POINTER;
	for (uint32_t i = 0; i < type->rank && is_known; i++)
		is_known = add_block_dimension(&pointer, &mask, operand_of(evaluation, line, 1 + i),
					       operand_of(evaluation, &parts, 1 + i),
					       operand_of(evaluation, &parts, 1 + type->rank + i),
					       i, (type->bits + 7) / 8);
	add_access(run, &pointer, is_known ? &mask : NULL, type, line->op != OP_DESCRIPTOR_LOAD);
}

/* ------------------------------------------------------------------ everything */

static void count_assembly(struct run *run)
{
	for (uint32_t i = 0; i < WORK_WIDTHS && !run->muted; i++)
		run->work->others[i].high = INFINITY;
}

void count_anything(struct run *run)
{
	run->unbounded++;
	run->unsure++;
	count_assembly(run);
	for (uint32_t i = 0; i < WORK_WIDTHS; i++)
		add(run, &run->work->dots[i], 0, 1);
	for (uint32_t i = 0; i < 2 && !run->muted; i++) {
		add(run, &run->work->requested[i], 0, 1);
		run->is_footprint_unknown[i] = true;
	}
	run->unbounded--;
	run->unsure--;
}

void count_operation(struct run *run, const struct program_line *line)
{
	switch (line->op) {
	case OP_LOAD:
		add_plain_access(run, line, 1);
		break;
	case OP_STORE:
	case OP_ATOMIC:
		add_plain_access(run, line, 2);
		break;
	case OP_DESCRIPTOR_LOAD:
	case OP_DESCRIPTOR_STORE:
	case OP_DESCRIPTOR_REDUCE:
		add_block_access(run, line);
		break;
	case OP_DOT:
		add_dot(run, line);
		break;
	case OP_REDUCE:
	case OP_SCAN:
		add_reduction(run, line);
		break;
	case OP_ASSEMBLY:
		count_assembly(run);
		break;
	case OP_UNKNOWN:
		count_anything(run);
		break;
	default:
		if (line->flops > 0)
			add_flops(run, line, elements_of(&line->types[0]));
	}
}
