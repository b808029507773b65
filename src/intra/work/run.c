/*
 * Evaluating a kernel for a launch. All programs of the grid and all iterations of a loop are
 * evaluated at once, with their number as an atom. Where something other than a sum depends on an
 * atom, the evaluation starts again with its values one by one.
 */
#include "intra/work/run.h"

#include <math.h>

#include "base/array.h"

#define STEPS_MAX 4000000u
#define REGION_DEPTH_MAX 32u
#define BRANCHES_MAX 16u /* that depend on data, per program */

enum outcome {
	OUTCOME_DONE,
	OUTCOME_RETURNED,
	OUTCOME_AGAIN,   /* with more atoms one by one */
	OUTCOME_GAVE_UP, /* out of steps, or control flow that is not understood */
};

static enum outcome run_lines(struct run *run, uint32_t from, uint32_t end, uint32_t depth);

static struct value *values_of(struct run *run)
{
	return run->evaluation.values;
}

static void forget(struct run *run, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		values_of(run)[first + i].kind = VALUE_UNKNOWN;
}

/* Notes which atoms are needed one by one. False if none is. */
static bool note_needed(struct run *run)
{
	uint64_t needed = run->evaluation.needed;

	run->evaluation.needed = 0;
	for (uint64_t left = needed; left; left &= left - 1) {
		uint32_t atom = (uint32_t)__builtin_ctzll(left);

		if (atom < ATOM_TILE)
			run->single_axes |= 1u << atom;
		else
			run->is_single[run->loop_lines[atom]] = true;
	}
	return needed;
}

/* ------------------------------------------------------------------ loops */

struct loop {
	uint32_t at;
	const struct program_line *line;
	uint32_t index;   /* the value of the index; carried values follow */
	uint32_t carried; /* the first of them */
	uint32_t count;   /* of carried values */
	uint32_t depth;
};

/* Values are copied through a buffer, because some may be among the others. */
static bool copy_values(struct run *run, const uint32_t *from, uint32_t count, uint32_t to)
{
	AUTO_FREE struct value *copies = malloc(((size_t)count + 1) * sizeof(*copies));

	for (uint32_t i = 0; i < count && copies; i++)
		copies[i].kind = VALUE_UNKNOWN;
	for (uint32_t i = 0; i < count && copies; i++)
		if (from[i] != PROGRAM_NO_VALUE)
			value_copy(&copies[i], &values_of(run)[from[i]]);
	for (uint32_t i = 0; i < count && copies; i++)
		value_copy(&values_of(run)[to + i], &copies[i]);
	run->is_out_of_memory |= !copies;
	return !run->is_out_of_memory;
}

static const uint32_t *operands_at(const struct run *run, const struct program_line *line)
{
	return &run->program->operands[line->first_operand];
}

/* Copies what the last scf.yield or scf.condition gives. */
static bool take_yielded(struct run *run, uint32_t skip, uint32_t count, uint32_t to)
{
	const struct program_line *line = &run->program->lines[run->yielded];

	if (run->yielded == PROGRAM_NO_LINE || line->operand_count < count + skip) {
		forget(run, to, count);
		return true;
	}
	return copy_values(run, operands_at(run, line) + skip, count, to);
}

static enum outcome run_body(struct run *run, const struct loop *loop)
{
	run->yielded = PROGRAM_NO_LINE;
	return run_lines(run, loop->at + 1, loop->line->end, loop->depth + 1);
}

static enum outcome run_unknown_times(struct run *run, const struct loop *loop)
{
	forget(run, loop->index, loop->count + 1);
	run->unsure++;
	run->unbounded++;
	enum outcome outcome = run_body(run, loop);
	run->unsure--;
	run->unbounded--;
	forget(run, loop->line->first_result, loop->line->result_count);
	return outcome;
}

static enum outcome run_one_by_one(struct run *run, const struct loop *loop,
				   const struct affine *first, int64_t step, int64_t trips)
{
	for (int64_t i = 0; i < trips; i++) {
		struct value *index = &values_of(run)[loop->index];

		index->kind = VALUE_NUMBER;
		index->form = *first;
		index->form.base += step * i;
		enum outcome outcome = run_body(run, loop);
		if (outcome != OUTCOME_DONE)
			return outcome;
		if (!take_yielded(run, 0, loop->count, loop->carried))
			return OUTCOME_GAVE_UP;
	}
	return OUTCOME_DONE;
}

/* Makes an atom of each number that the loop carries, and evaluates what becomes of it. */
static enum outcome read_changes(struct run *run, const struct loop *loop)
{
	uint32_t before = run->carried_count;

	for (uint32_t i = 0; i < loop->count; i++) {
		struct value *value = &values_of(run)[loop->carried + i];
		uint32_t atom = ATOM_CARRIED + run->carried_count;

		if (value->kind == VALUE_MASK || atom >= ATOM_COUNT)
			value->kind = VALUE_UNKNOWN;
		if (value->kind != VALUE_NUMBER && value->kind != VALUE_POINTER)
			continue;
		run->carried_count++;
		run->loop_lines[atom] = loop->at;
		run->evaluation.sizes.of[atom] = 0;
		value->form = affine_atom(atom);
	}
	run->muted++;
	enum outcome outcome = run_body(run, loop);
	run->muted--;
	run->carried_count = before;
	return outcome;
}

/*
 * The change of each carried value in an iteration. Where it is not a number, the value becomes
 * unknown, or iterations are needed one by one.
 */
static void compare_changes(struct run *run, const struct loop *loop, struct value *initial,
			    int64_t *changes)
{
	const struct program_line *yield = &run->program->lines[run->yielded];

	for (uint32_t i = 0; i < loop->count; i++) {
		const struct value *before = &values_of(run)[loop->carried + i];
		const struct value *after = operand_of(&run->evaluation, yield, i);
		struct affine change = after->form;

		changes[i] = 0;
		if (before->kind == VALUE_UNKNOWN || after->kind == VALUE_UNKNOWN) {
			initial[i].kind = VALUE_UNKNOWN;
		} else if (after->kind != before->kind || after->argument != before->argument ||
			   !affine_add(&change, &before->form, -1) ||
			   affine_atoms(&change) & ~(ATOM_BIT(ATOM_LOOP) - 1)) {
			run->is_single[loop->at] = true;
			run->is_restarted = true;
		} else {
			run->evaluation.needed |= affine_atoms(&change) & ~ATOM_TILES;
			changes[i] = change.base;
			if (change.count)
				initial[i].kind = VALUE_UNKNOWN;
		}
	}
}

/* Values that the loop carries, after `trips` iterations or in all of them. */
static void advance(struct run *run, uint32_t first, uint32_t count, const struct value *initial,
		    const int64_t *changes, const struct affine *iterations)
{
	for (uint32_t i = 0; i < count; i++) {
		struct value *value = &values_of(run)[first + i];

		value_copy(value, &initial[i]);
		if (changes[i] && value->kind != VALUE_UNKNOWN &&
		    !affine_add(&value->form, iterations, changes[i]))
			value->kind = VALUE_UNKNOWN;
	}
}

static enum outcome run_all_iterations(struct run *run, const struct loop *loop, int64_t trips,
				       struct value *initial, int64_t *changes)
{
	const struct affine iterations = affine_atom(ATOM_LOOP + run->loop_depth - 1);
	const struct affine all = {.base = trips};
	struct value *index = &values_of(run)[loop->index];
	struct value saved = *index;

	for (uint32_t i = 0; i < loop->count; i++)
		value_copy(&initial[i], &values_of(run)[loop->carried + i]);
	enum outcome outcome = read_changes(run, loop);
	if (outcome != OUTCOME_DONE)
		return outcome;
	if (run->yielded == PROGRAM_NO_LINE)
		return loop->count ? OUTCOME_GAVE_UP : run_body(run, loop);
	compare_changes(run, loop, initial, changes);
	if (note_needed(run) || run->is_restarted)
		return OUTCOME_AGAIN;
	advance(run, loop->carried, loop->count, initial, changes, &iterations);
	*index = saved;
	outcome = run_body(run, loop);
	if (outcome == OUTCOME_DONE && loop->line->result_count == loop->count)
		advance(run, loop->line->first_result, loop->count, initial, changes, &all);
	return outcome;
}

static enum outcome run_at_once(struct run *run, const struct loop *loop,
				const struct affine *first, int64_t step, int64_t trips)
{
	const uint32_t atom = ATOM_LOOP + run->loop_depth;
	const struct affine iterations = affine_atom(atom);
	struct value *index = &values_of(run)[loop->index];
	AUTO_FREE struct value *initial = malloc(((size_t)loop->count + 1) * sizeof(*initial));
	AUTO_FREE int64_t *changes = malloc(((size_t)loop->count + 1) * sizeof(*changes));
	enum outcome outcome = OUTCOME_GAVE_UP;

	index->kind = VALUE_NUMBER;
	index->form = *first;
	run->is_out_of_memory |= !initial || !changes;
	if (initial && changes && affine_add(&index->form, &iterations, step)) {
		run->loop_lines[atom] = loop->at;
		run->evaluation.sizes.of[atom] = trips;
		run->loop_depth++;
		run->active |= ATOM_BIT(atom);
		outcome = run_all_iterations(run, loop, trips, initial, changes);
		run->loop_depth--;
		run->active &= ~ATOM_BIT(atom);
	}
	return outcome;
}

/* The number of iterations. 0 or more; -1: unknown; -2: after starting again. */
static int64_t read_trips(struct run *run, const struct program_line *line, int64_t *step_out)
{
	const struct value *first = operand_of(&run->evaluation, line, 0);
	const struct value *last = operand_of(&run->evaluation, line, 1);
	const struct value *step = operand_of(&run->evaluation, line, 2);
	struct affine distance = last->form;

	if (first->kind != VALUE_NUMBER || last->kind != VALUE_NUMBER ||
	    step->kind != VALUE_NUMBER || !affine_add(&distance, &first->form, -1))
		return -1;
	run->evaluation.needed |= affine_atoms(&distance) | affine_atoms(&step->form);
	run->evaluation.needed &= ~ATOM_TILES;
	*step_out = step->form.base;
	if (run->evaluation.needed)
		return -2;
	if (distance.count || step->form.count || *step_out <= 0)
		return -1;
	return distance.base > 0 ? (distance.base - 1) / *step_out + 1 : 0;
}

static enum outcome run_for(struct run *run, uint32_t at, uint32_t depth)
{
	const struct program_line *line = &run->program->lines[at];
	struct loop loop = {.at = at,
			    .line = line,
			    .index = (uint32_t)line->number,
			    .carried = (uint32_t)line->number + 1,
			    .count = (uint32_t)line->other - 1,
			    .depth = depth};
	struct affine first = operand_of(&run->evaluation, line, 0)->form;
	int64_t step = 0;

	if (line->end == PROGRAM_NO_LINE || !line->other || line->operand_count < loop.count + 3)
		return OUTCOME_GAVE_UP;
	int64_t trips = read_trips(run, line, &step);
	if (trips == -2)
		return note_needed(run) ? OUTCOME_AGAIN : OUTCOME_GAVE_UP;
	if (!copy_values(run, operands_at(run, line) + 3, loop.count, loop.carried))
		return OUTCOME_GAVE_UP;
	if (trips < 0)
		return run_unknown_times(run, &loop);
	if (trips > 1 && !run->is_single[at] && run->loop_depth < LOOP_DEPTH)
		return run_at_once(run, &loop, &first, step, trips);
	enum outcome outcome = run_one_by_one(run, &loop, &first, step, trips);
	for (uint32_t i = 0; i < line->result_count && outcome == OUTCOME_DONE; i++)
		values_of(run)[line->first_result + i] =
			i < loop.count ? values_of(run)[loop.carried + i]
				       : (struct value){.kind = VALUE_UNKNOWN};
	return outcome;
}

/* Iterations one by one, while the condition is known. */
static enum outcome run_while(struct run *run, uint32_t at, uint32_t depth)
{
	const struct program_line *lines = run->program->lines;
	const struct program_line *line = &lines[at];
	const struct program_line *body = &lines[line->next + 1];
	struct loop loop = {.at = at,
			    .line = line,
			    .index = (uint32_t)line->number,
			    .carried = (uint32_t)line->number,
			    .count = (uint32_t)line->other,
			    .depth = depth};
	enum outcome outcome = OUTCOME_DONE;

	if (line->end == PROGRAM_NO_LINE || line->next >= line->end ||
	    line->operand_count < loop.count ||
	    !copy_values(run, operands_at(run, line), loop.count, loop.carried))
		return OUTCOME_GAVE_UP;
	while (outcome == OUTCOME_DONE) {
		run->yielded = PROGRAM_NO_LINE;
		outcome = run_lines(run, at + 1, line->next, depth + 1);
		if (outcome != OUTCOME_DONE)
			break;
		if (run->yielded == PROGRAM_NO_LINE)
			return OUTCOME_GAVE_UP;
		int is_true = value_is_true(&run->evaluation,
					    operand_of(&run->evaluation, &lines[run->yielded], 0));
		if (note_needed(run))
			return OUTCOME_AGAIN;
		if (is_true < 0) {
			if (loop.count)
				forget(run, loop.carried, loop.count);
			run->unsure++;
			run->unbounded++;
			if (body->op == OP_LABEL)
				forget(run, body->first_result, body->result_count);
			outcome = run_lines(run, line->next + 1, line->end, depth + 1);
			run->unsure--;
			run->unbounded--;
			forget(run, line->first_result, line->result_count);
			return outcome;
		}
		if (!is_true) {
			take_yielded(run, 1, line->result_count, line->first_result);
			return OUTCOME_DONE;
		}
		if (body->op == OP_LABEL)
			take_yielded(run, 1, body->result_count, body->first_result);
		outcome = run_lines(run, line->next + 1 + (body->op == OP_LABEL), line->end,
				    depth + 1);
		if (outcome == OUTCOME_DONE)
			take_yielded(run, 0, loop.count, loop.carried);
	}
	return outcome;
}

/* ------------------------------------------------------------------ conditions */

static enum outcome run_branch(struct run *run, uint32_t from, uint32_t end, uint32_t depth,
			       const struct program_line *line)
{
	run->yielded = PROGRAM_NO_LINE;
	enum outcome outcome = run_lines(run, from, end, depth + 1);
	if (outcome == OUTCOME_DONE)
		take_yielded(run, 0, line->result_count, line->first_result);
	return outcome;
}

static enum outcome run_if(struct run *run, uint32_t at, uint32_t depth)
{
	const struct program_line *line = &run->program->lines[at];
	int is_true = value_is_true(&run->evaluation, operand_of(&run->evaluation, line, 0));
	enum outcome outcome = OUTCOME_DONE;

	if (note_needed(run))
		return OUTCOME_AGAIN;
	if (line->end == PROGRAM_NO_LINE)
		return OUTCOME_GAVE_UP;
	run->unsure += is_true < 0;
	if (is_true != 0)
		outcome = run_branch(run, at + 1, line->next, depth, line);
	if (is_true <= 0 && outcome == OUTCOME_DONE && line->next < line->end)
		outcome = run_branch(run, line->next + 1, line->end, depth, line);
	run->unsure -= is_true < 0;
	if (is_true < 0)
		forget(run, line->first_result, line->result_count);
	return outcome;
}

/*
 * Sets the line where a branch leads to. If data decides, the first target is evaluated until the
 * program ends, and then the other one; from here on nothing is sure.
 */
static enum outcome run_jump(struct run *run, const struct program_line *line, uint32_t end,
			     uint32_t depth, uint32_t *target_out)
{
	uint32_t one = (uint32_t)line->number;
	uint32_t other = line->op == OP_BRANCH ? one : (uint32_t)line->other;
	int is_true = 1;

	if (line->op == OP_BRANCH_IF)
		is_true = value_is_true(&run->evaluation, operand_of(&run->evaluation, line, 0));
	if (note_needed(run))
		return OUTCOME_AGAIN;
	if (depth || one == PROGRAM_NO_LINE || other == PROGRAM_NO_LINE)
		return OUTCOME_GAVE_UP;
	*target_out = is_true > 0 ? one : other;
	if (is_true >= 0)
		return OUTCOME_DONE;
	if (run->branch_count++ == BRANCHES_MAX)
		return OUTCOME_GAVE_UP;
	run->unsure++;
	return run_lines(run, one, end, depth);
}

/* ------------------------------------------------------------------ lines */

static void set_sizes(struct run *run, const struct program_type *type)
{
	for (uint32_t i = 0; i < type->rank; i++)
		run->evaluation.sizes.of[ATOM_TILE + i] = type->shape[i];
}

static void set_program_id(struct run *run, const struct program_line *line)
{
	uint32_t axis = (uint32_t)line->number;
	struct value *value = &values_of(run)[line->first_result];

	value_set_number(value, run->programs[axis]);
	if (run->single_axes >> axis & 1 || run->evaluation.grid[axis] == 1)
		return;
	value->form = affine_atom(ATOM_PROGRAM + axis);
}

static enum outcome run_plain(struct run *run, const struct program_line *line)
{
	set_sizes(run, &line->types[0]);
	if (line->op == OP_PROGRAM_ID && line->result_count)
		set_program_id(run, line);
	else
		value_compute(&run->evaluation, line);
	count_operation(run, line);
	if (run->is_out_of_memory)
		return OUTCOME_GAVE_UP;
	return note_needed(run) ? OUTCOME_AGAIN : OUTCOME_DONE;
}

static enum outcome run_line(struct run *run, uint32_t at, uint32_t depth)
{
	switch (run->program->lines[at].op) {
	case OP_FOR:
		return run_for(run, at, depth);
	case OP_WHILE:
		return run_while(run, at, depth);
	case OP_IF:
		return run_if(run, at, depth);
	case OP_YIELD:
	case OP_CONDITION:
		run->yielded = at;
		return OUTCOME_DONE;
	case OP_RETURN:
		return OUTCOME_RETURNED;
	case OP_LABEL:
		forget(run, run->program->lines[at].first_result,
		       run->program->lines[at].result_count);
		return OUTCOME_DONE;
	default:
		return run_plain(run, &run->program->lines[at]);
	}
}

/* Calls are nested as regions are, up to a maximum. */
static enum outcome run_lines(struct run *run, uint32_t from, uint32_t end, uint32_t depth)
{
	if (depth > REGION_DEPTH_MAX)
		return OUTCOME_GAVE_UP;
	for (uint32_t i = from; i < end; i++) {
		const struct program_line *line = &run->program->lines[i];
		enum outcome outcome;

		if (line->op == OP_NONE)
			continue;
		if (!run->steps)
			return OUTCOME_GAVE_UP;
		run->steps--;
		if (line->op == OP_BRANCH || line->op == OP_BRANCH_IF) {
			uint32_t target;

			outcome = run_jump(run, line, end, depth, &target);
			if (outcome > OUTCOME_RETURNED)
				return outcome;
			i = target - 1;
			continue;
		}
		outcome = run_line(run, i, depth);
		if (outcome != OUTCOME_DONE)
			return outcome;
		if (line->end != PROGRAM_NO_LINE)
			i = line->end;
	}
	return OUTCOME_DONE;
}

/* ------------------------------------------------------------------ programs */

static void set_arguments(struct run *run, const struct work_launch *launch)
{
	const struct program *program = run->program;

	forget(run, 0, program->value_count);
	for (uint32_t i = 0; i < program->parameter_count; i++) {
		struct value *value = &values_of(run)[i];

		if (program->parameters[i].is_descriptor) {
			value->kind = VALUE_DESCRIPTOR;
			value->argument = program->parameters[i].parts;
			value = &values_of(run)[program->operands[value->argument]];
		}
		if (program->parameters[i].is_pointer || program->parameters[i].is_descriptor) {
			value->kind = VALUE_POINTER;
			value->argument = i;
			value->form = (struct affine){0};
		} else if (launch->arguments[i].is_known && !program->parameters[i].is_float) {
			value_set_number(value, launch->arguments[i].value);
		}
	}
}

/* All programs; those along axes that are needed one by one in turn. */
static enum outcome run_programs(struct run *run, const struct work_launch *launch)
{
	int64_t counts[3];
	enum outcome outcome = OUTCOME_DONE;

	run->active = 0;
	run->is_restarted = false;
	set_arguments(run, launch);
	for (uint32_t i = 0; i < 3; i++) {
		bool is_single = run->single_axes >> i & 1;

		counts[i] = is_single ? launch->grid[i] : 1;
		run->evaluation.sizes.of[ATOM_PROGRAM + i] = launch->grid[i];
		if (!is_single)
			run->active |= ATOM_BIT(ATOM_PROGRAM + i);
	}
	for (int64_t z = 0; z < counts[2]; z++) {
		for (int64_t y = 0; y < counts[1]; y++) {
			for (int64_t x = 0; x < counts[0]; x++) {
				run->programs[0] = x;
				run->programs[1] = y;
				run->programs[2] = z;
				run->unsure = 0;
				run->branch_count = 0;
				outcome = run_lines(run, run->program->body, run->program->end, 0);
				if (outcome > OUTCOME_RETURNED)
					return outcome;
			}
		}
	}
	return OUTCOME_DONE;
}

static void clear(struct run *run)
{
	*run->work = (struct work){0};
	run->muted = run->unsure = run->unbounded = 0;
	run->loop_depth = run->carried_count = 0;
	run->evaluation.needed = 0;
	for (uint32_t i = 0; i < 2; i++)
		run->is_footprint_unknown[i] = false;
	for (uint32_t i = 0; i < 2 * run->program->parameter_count; i++)
		footprint_fini(&run->footprints[i]);
}

static void sum_footprints(struct run *run)
{
	for (uint32_t i = 0; i < 2 * run->program->parameter_count; i++) {
		struct work_range *range = &run->work->compulsory[i & 1];
		double bytes = footprint_bytes(&run->footprints[i]);

		if (isnan(bytes))
			run->is_footprint_unknown[i & 1] = true;
		else
			range->low += bytes;
	}
	for (uint32_t i = 0; i < 2; i++)
		run->work->compulsory[i].high = run->is_footprint_unknown[i]
							? run->work->requested[i].high
							: run->work->compulsory[i].low;
}

static void run_until_done(struct run *run, const struct work_launch *launch)
{
	enum outcome outcome;

	run->steps = STEPS_MAX;
	do {
		clear(run);
		outcome = run_programs(run, launch);
	} while (outcome == OUTCOME_AGAIN);
	if (outcome == OUTCOME_GAVE_UP && !run->steps && !run->evaluation.has_no_tiles) {
		/* Without the atoms that mix with positions in a tensor there are fewer. */
		run->evaluation.has_no_tiles = true;
		run->steps = STEPS_MAX;
		run->single_axes = 0;
		for (uint32_t i = 0; i < run->program->line_count; i++)
			run->is_single[i] = false;
		do {
			clear(run);
			outcome = run_programs(run, launch);
		} while (outcome == OUTCOME_AGAIN);
	}
	if (outcome == OUTCOME_GAVE_UP) {
		clear(run);
		count_anything(run);
	}
	sum_footprints(run);
}

int work_count(const struct program *program, const struct work_launch *launch, struct work *out,
	       struct proton_error *err)
{
	struct run run = {.program = program, .work = out};

	if (launch->argument_count != program->parameter_count)
		return err_set(err, PROTON_E_INVALID, "the kernel has %u parameters, not %u",
			       program->parameter_count, launch->argument_count);
	for (uint32_t i = 0; i < 3; i++) {
		run.evaluation.grid[i] = launch->grid[i];
		if (launch->grid[i] < 1 || launch->grid[i] > UINT32_MAX)
			return err_set(err, PROTON_E_INVALID, "the grid is empty or too large");
	}
	run.evaluation.program = program;
	run.evaluation.values = calloc((size_t)program->value_count + 1, sizeof(struct value));
	run.is_single = calloc((size_t)program->line_count + 1, sizeof(bool));
	run.footprints = calloc(2 * (size_t)program->parameter_count + 1, sizeof(struct footprint));
	run.is_out_of_memory = !run.evaluation.values || !run.is_single || !run.footprints;
	if (!run.is_out_of_memory)
		run_until_done(&run, launch);
	for (uint32_t i = 0; i < 2 * program->parameter_count && run.footprints; i++)
		footprint_fini(&run.footprints[i]);
	free(run.evaluation.values);
	free(run.is_single);
	free(run.footprints);
	return run.is_out_of_memory ? err_nomem(err) : PROTON_OK;
}

int work_read(const char *text, size_t length, struct program **out, struct proton_error *err)
{
	struct program *program = malloc(sizeof(*program));
	int status = program ? program_read((struct slice){text, length}, program, err)
			     : err_nomem(err);

	if (status != PROTON_OK)
		free(program);
	else
		*out = program;
	return status;
}

void work_free(struct program *program)
{
	if (program)
		program_fini(program);
	free(program);
}
