/* Evaluating operations on integers, pointers and masks. */
#include "intra/work/run.h"

static const struct value unknown;

const struct value *operand_of(const struct evaluation *evaluation, const struct program_line *line,
			       uint32_t number)
{
	if (number >= line->operand_count)
		return &unknown;
	uint32_t value = evaluation->program->operands[line->first_operand + number];
	return value == PROGRAM_NO_VALUE ? &unknown : &evaluation->values[value];
}

void value_set_number(struct value *value, int64_t number)
{
	value->kind = VALUE_NUMBER;
	value->form = (struct affine){.base = number};
}

static bool is_number(const struct value *value)
{
	return value->kind == VALUE_NUMBER && !value->form.count;
}

/* Asks for fixed values of a form's atoms. Positions in a tensor have none. */
static void need(struct evaluation *evaluation, const struct affine *form)
{
	uint64_t atoms = affine_atoms(form);

	if (!evaluation->has_no_tiles || !(atoms & ATOM_TILES))
		evaluation->needed |= atoms & ~ATOM_TILES;
}

static void need_value(struct evaluation *evaluation, const struct value *value)
{
	if (value->kind == VALUE_NUMBER || value->kind == VALUE_POINTER)
		need(evaluation, &value->form);
	else if (value->kind == VALUE_MASK)
		for (uint32_t i = 0; i < value->bound_count; i++)
			need(evaluation, &value->bounds[i]);
}

/* ------------------------------------------------------------------ masks */

static void set_mask(struct value *value, bool is_true)
{
	value->kind = VALUE_MASK;
	value->argument = 0;
	value->bound_count = !is_true;
	value->bounds[0] = (struct affine){.base = -1};
}

bool value_as_mask(const struct value *value, struct value *out)
{
	if (is_number(value))
		set_mask(out, value->form.base != 0);
	else if (value->kind == VALUE_MASK)
		value_copy(out, value);
	else
		return false;
	return true;
}

bool mask_and(struct value *mask, const struct value *more)
{
	for (uint32_t i = 0; i < more->bound_count; i++) {
		bool is_new = true;

		for (uint32_t j = 0; j < mask->bound_count && is_new; j++) {
			struct affine difference = more->bounds[i];

			if (!affine_add(&difference, &mask->bounds[j], -1) || difference.count)
				continue;
			is_new = false;
			if (difference.base < 0)
				mask->bounds[j] = more->bounds[i];
		}
		if (is_new && mask->bound_count == AFFINE_BOUNDS)
			return false;
		if (is_new)
			mask->bounds[mask->bound_count++] = more->bounds[i];
	}
	return true;
}

int value_is_true(struct evaluation *evaluation, const struct value *value)
{
	struct value mask;
	bool is_true = true;

	if (!value_as_mask(value, &mask)) {
		need_value(evaluation, value);
		return -1;
	}
	for (uint32_t i = 0; i < mask.bound_count; i++) {
		int64_t low, high;
		bool is_known = affine_range(&mask.bounds[i], &evaluation->sizes, &low, &high);

		if (is_known && high < 0)
			return 0;
		is_true &= is_known && low >= 0;
	}
	if (is_true)
		return 1;
	need_value(evaluation, &mask);
	return -1;
}

/* A bound of which the other truth is a bound too. */
static bool negate(struct value *mask)
{
	struct affine form = {.base = -1};

	if (!mask->bound_count) {
		set_mask(mask, false);
		return true;
	}
	if (mask->bound_count > 1 || !affine_add(&form, &mask->bounds[0], -1))
		return false;
	mask->bounds[0] = form;
	if (!form.count && form.base >= 0)
		mask->bound_count = 0;
	return true;
}

static void combine_masks(struct evaluation *evaluation, const struct program_line *line,
			  struct value *out)
{
	struct value a, b;

	if (!value_as_mask(operand_of(evaluation, line, 0), &a) ||
	    !value_as_mask(operand_of(evaluation, line, 1), &b)) {
		/* false and anything */
		for (uint32_t i = 0; i < 2 && line->op == OP_AND; i++)
			if (value_as_mask(operand_of(evaluation, line, i), &a) && a.bound_count &&
			    !a.bounds[0].count && a.bounds[0].base < 0)
				value_copy(out, &a);
		return;
	}
	if (line->op == OP_AND) {
		if (mask_and(&a, &b))
			value_copy(out, &a);
		return;
	}
	for (uint32_t i = 0; i < 2; i++) {
		int is_true = value_is_true(evaluation, i ? &b : &a);
		struct value *other = i ? &a : &b;

		if (is_true < 0)
			continue;
		if (line->op == OP_OR && is_true)
			set_mask(out, true);
		else if (line->op == OP_OR || !is_true || negate(other))
			value_copy(out, other);
		return;
	}
}

/* a >= b + more */
static bool add_bound(struct value *mask, const struct affine *a, const struct affine *b,
		      int64_t more)
{
	struct value one;

	set_mask(&one, false);
	one.bounds[0] = *a;
	if (!affine_add(&one.bounds[0], b, -1) ||
	    __builtin_sub_overflow(one.bounds[0].base, more, &one.bounds[0].base))
		return false;
	if (!one.bounds[0].count && one.bounds[0].base >= 0)
		return true;
	return mask_and(mask, &one);
}

static void compare(const struct value *x, const struct value *y, int64_t predicate,
		    struct value *out)
{
	struct value mask;
	const struct affine *a = &x->form;
	const struct affine *b = &y->form;
	bool is_known = false;

	if (x->kind != VALUE_NUMBER || y->kind != VALUE_NUMBER)
		return;
	set_mask(&mask, true);
	if (predicate == 0 || predicate == 1)
		is_known = add_bound(&mask, b, a, predicate == 0);
	else if (predicate == 2 || predicate == 3)
		is_known = add_bound(&mask, a, b, predicate == 2);
	else if (predicate == 4)
		is_known = add_bound(&mask, a, b, 0) && add_bound(&mask, b, a, 0);
	else if (predicate == 5 && !a->count && !b->count) {
		set_mask(&mask, a->base != b->base);
		is_known = true;
	}
	if (is_known)
		value_copy(out, &mask);
}

/* ------------------------------------------------------------------ numbers */

static bool is_multiple(const struct affine *form, int64_t divisor, struct affine *rest)
{
	*rest = (struct affine){.base = ((form->base % divisor) + divisor) % divisor};
	for (uint32_t i = 0; i < form->count; i++) {
		const struct affine term = {
			.count = 1, .atoms = {form->atoms[i]}, .factors = {form->factors[i]}};

		if (form->factors[i] % divisor && !affine_add(rest, &term, 1))
			return false;
	}
	return true;
}

/* form = divisor * quotient + rest, if the rest is surely within [0, divisor). */
static bool split(struct evaluation *evaluation, const struct affine *form, int64_t divisor,
		  struct affine *quotient, struct affine *rest)
{
	int64_t low, high;

	if (!affine_range(form, &evaluation->sizes, &low, &high) || low < 0 ||
	    !is_multiple(form, divisor, rest) ||
	    !affine_range(rest, &evaluation->sizes, &low, &high) || low < 0 || high >= divisor)
		return false;
	*quotient = *form;
	if (!affine_add(quotient, rest, -1))
		return false;
	quotient->base /= divisor;
	for (uint32_t i = 0; i < quotient->count; i++)
		quotient->factors[i] /= divisor;
	return true;
}

static void divide(struct evaluation *evaluation, enum program_op op, const struct value *a,
		   const struct value *b, struct value *out)
{
	struct affine quotient, rest;
	int64_t n = b->form.base;
	int64_t x = a->form.base;

	if (!is_number(b) || n <= 0) {
		need(evaluation, &b->form);
		return;
	}
	if (!a->form.count) {
		value_set_number(out, op == OP_REM         ? x % n
				      : op == OP_DIV       ? x / n
				      : op == OP_FLOOR_DIV ? floor_divided(x, n)
							   : -floor_divided(-x, n));
	} else if (op != OP_CEIL_DIV && split(evaluation, &a->form, n, &quotient, &rest)) {
		out->kind = VALUE_NUMBER;
		out->form = op == OP_REM ? rest : quotient;
	} else {
		need(evaluation, &a->form);
	}
}

static void multiply(struct evaluation *evaluation, const struct value *a, const struct value *b,
		     struct value *out)
{
	struct affine product = {0};

	if (a->form.count && b->form.count) {
		/* One of both has to be a number; that without positions can become one. */
		need(evaluation, affine_atoms(&a->form) & ATOM_TILES ? &b->form : &a->form);
		return;
	}
	if (a->form.count) {
		multiply(evaluation, b, a, out);
		return;
	}
	if (!affine_add(&product, &b->form, a->form.base))
		return;
	out->kind = VALUE_NUMBER;
	out->form = product;
}

/* The smaller, or the larger, of two numbers. */
static void choose(struct evaluation *evaluation, bool is_min, const struct value *a,
		   const struct value *b, struct value *out)
{
	struct affine difference = a->form;
	int64_t low, high;

	if (affine_add(&difference, &b->form, -1) &&
	    affine_range(&difference, &evaluation->sizes, &low, &high) && (low >= 0 || high <= 0)) {
		value_copy(out, (high <= 0) == is_min ? a : b);
		return;
	}
	need(evaluation, &a->form);
	need(evaluation, &b->form);
}

static void compute_bits(enum program_op op, const struct value *a, const struct value *b,
			 struct evaluation *evaluation, struct value *out)
{
	struct value power = {.kind = VALUE_NUMBER};
	int64_t x = a->form.base;
	int64_t y = b->form.base;

	if ((op == OP_SHIFT_LEFT || op == OP_SHIFT_RIGHT) && is_number(b) && y >= 0 && y < 32) {
		power.form.base = (int64_t)1 << y;
		if (op == OP_SHIFT_LEFT)
			multiply(evaluation, a, &power, out);
		else
			divide(evaluation, OP_FLOOR_DIV, a, &power, out);
	} else if (is_number(a) && is_number(b) && op <= OP_XOR) {
		value_set_number(out, op == OP_AND ? x & y : op == OP_OR ? x | y : x ^ y);
	} else {
		need(evaluation, &a->form);
		need(evaluation, &b->form);
	}
}

/* Hashes multiply until only some bits remain; affine forms have all of them. */
static bool may_overflow(const struct evaluation *evaluation, const struct value *value)
{
	int64_t low, high;

	return value->kind == VALUE_NUMBER &&
	       affine_range(&value->form, &evaluation->sizes, &low, &high) &&
	       (low < INT32_MIN || high > UINT32_MAX);
}

static void compute_number(struct evaluation *evaluation, const struct program_line *line,
			   struct value *out)
{
	const struct value *a = operand_of(evaluation, line, 0);
	const struct value *b = operand_of(evaluation, line, 1);

	if (a->kind != VALUE_NUMBER || b->kind != VALUE_NUMBER) {
		if (line->op >= OP_AND && line->op <= OP_XOR && line->types[0].bits == 1)
			combine_masks(evaluation, line, out);
		return;
	}
	switch (line->op) {
	case OP_ADD:
	case OP_SUB:
		value_copy(out, a);
		if (!affine_add(&out->form, &b->form, line->op == OP_ADD ? 1 : -1))
			out->kind = VALUE_UNKNOWN;
		break;
	case OP_MUL:
		multiply(evaluation, a, b, out);
		break;
	case OP_MIN:
	case OP_MAX:
		choose(evaluation, line->op == OP_MIN, a, b, out);
		break;
	case OP_DIV:
	case OP_FLOOR_DIV:
	case OP_CEIL_DIV:
	case OP_REM:
		divide(evaluation, line->op, a, b, out);
		break;
	default:
		compute_bits(line->op, a, b, evaluation, out);
	}
	if (line->types[0].bits <= 32 && may_overflow(evaluation, out))
		out->kind = VALUE_UNKNOWN;
}

/* ------------------------------------------------------------------ tensors */

/* Renames the positions: dimension i becomes to[i]. */
static void move_positions(struct value *value, const uint32_t *to)
{
	uint32_t count = value->kind == VALUE_MASK ? value->bound_count : 1;

	for (uint32_t i = 0; i < count; i++) {
		struct affine *form = &value->bounds[i];

		for (uint32_t j = 0; j < form->count; j++) {
			uint32_t dimension = form->atoms[j] - ATOM_TILE;

			if (ATOM_BIT(form->atoms[j]) & ATOM_TILES)
				form->atoms[j] = (uint8_t)(ATOM_TILE + to[dimension]);
		}
	}
}

static bool has_positions(const struct value *value)
{
	uint32_t count = value->kind == VALUE_MASK ? value->bound_count : 1;
	uint64_t atoms = 0;

	for (uint32_t i = 0; i < count; i++)
		atoms |= affine_atoms(&value->bounds[i]);
	return atoms & ATOM_TILES;
}

static void reorder(const struct program_line *line, struct value *out)
{
	uint32_t to[TILE_RANK] = {0, 1, 2, 3, 4};

	if (line->op == OP_EXPAND) {
		for (uint32_t i = 0; i < TILE_RANK; i++)
			to[i] = i + (i >= line->number);
		if (line->types[0].rank >= TILE_RANK)
			out->kind = VALUE_UNKNOWN;
	} else if (line->number < 0) {
		out->kind = VALUE_UNKNOWN;
	} else {
		for (uint32_t i = 0; i < line->types[0].rank; i++)
			to[line->number >> (3 * i) & 7] = i;
	}
	if (out->kind != VALUE_UNKNOWN)
		move_positions(out, to);
}

/* A tensor of another shape with the same elements: only where dimensions of 1 come or go. */
static void reshape(const struct program_line *line, struct value *out)
{
	const struct program_type *from = &line->types[0];
	const struct program_type *to = &line->types[1];
	uint32_t moved[TILE_RANK] = {0};
	uint32_t j = 0;

	if (!has_positions(out))
		return;
	for (uint32_t i = 0; i < from->rank; i++) {
		if (from->shape[i] == 1)
			continue;
		while (j < to->rank && to->shape[j] == 1)
			j++;
		if (j == to->rank || to->shape[j] != from->shape[i]) {
			out->kind = VALUE_UNKNOWN;
			return;
		}
		moved[i] = j++;
	}
	move_positions(out, moved);
}

static void add_pointer(const struct evaluation *evaluation, const struct program_line *line,
			struct value *out)
{
	const struct value *pointer = operand_of(evaluation, line, 0);
	const struct value *offset = operand_of(evaluation, line, 1);

	if (pointer->kind != VALUE_POINTER || offset->kind != VALUE_NUMBER)
		return;
	value_copy(out, pointer);
	if (!affine_add(&out->form, &offset->form, (line->types[0].bits + 7) / 8))
		out->kind = VALUE_UNKNOWN;
}

static void select_value(struct evaluation *evaluation, const struct program_line *line,
			 struct value *out)
{
	int is_true = value_is_true(evaluation, operand_of(evaluation, line, 0));

	if (is_true >= 0)
		value_copy(out, operand_of(evaluation, line, is_true ? 1 : 2));
}

void value_compute(struct evaluation *evaluation, const struct program_line *line)
{
	struct value out;

	out.kind = VALUE_UNKNOWN;
	out.argument = out.bound_count = 0;
	switch (line->op) {
	case OP_CONSTANT:
		if (line->is_known)
			value_set_number(&out, line->number);
		break;
	case OP_PROGRAM_COUNT:
		value_set_number(&out, evaluation->grid[line->number]);
		break;
	case OP_RANGE:
		value_set_number(&out, line->number);
		out.form.count = 1;
		out.form.atoms[0] = ATOM_TILE;
		out.form.factors[0] = 1;
		break;
	case OP_SAME:
		value_copy(&out, operand_of(evaluation, line, 0));
		break;
	case OP_EXPAND:
	case OP_TRANSPOSE:
		value_copy(&out, operand_of(evaluation, line, 0));
		if (out.kind != VALUE_UNKNOWN)
			reorder(line, &out);
		break;
	case OP_RESHAPE:
		value_copy(&out, operand_of(evaluation, line, 0));
		if (out.kind != VALUE_UNKNOWN)
			reshape(line, &out);
		break;
	case OP_ADD_POINTER:
		add_pointer(evaluation, line, &out);
		break;
	case OP_COMPARE:
		compare(operand_of(evaluation, line, 0), operand_of(evaluation, line, 1),
			line->number, &out);
		break;
	case OP_SELECT:
		select_value(evaluation, line, &out);
		break;
	case OP_DESCRIPTOR:
		out.kind = VALUE_DESCRIPTOR;
		out.argument = line->first_operand;
		break;
	default:
		if (line->op >= OP_ADD && line->op <= OP_SHIFT_RIGHT)
			compute_number(evaluation, line, &out);
	}
	if (line->result_count)
		value_copy(&evaluation->values[line->first_result], &out);
	for (uint32_t i = 1; i < line->result_count; i++)
		evaluation->values[line->first_result + i].kind = VALUE_UNKNOWN;
}
