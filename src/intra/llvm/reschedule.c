/*
 * Rescheduling around markers, to keep the schedule that the kernel has without them. A kernel
 * computes its next addresses while it waits for dots or copies, because ptxas moves that
 * arithmetic there. But ptxas moves nothing across a clock read. With a marker after a wait, the
 * arithmetic would start only after the wait, which costs more than the records. So inside loops,
 * integer and pointer arithmetic that follows a marker placed after a wait, and does not depend on
 * the wait, is moved before the wait. Arithmetic that follows a second wait stays, and so do
 * predicates that nothing moved needs, because a thread has few. After loops all stays: the
 * one-time gain is not worth the registers for all addresses of an epilogue during the last dots.
 *
 * In the other direction, operand fragments loaded right before a marker are moved after it, to the
 * dots that use them, where ptxas puts them without a marker. Loaded all at once they need many
 * registers. They stay if nothing else is between two markers, because then they are what is
 * measured. The same applies to the dot of fp32 values, which is plain arithmetic: its loads and
 * the part that LLVM moved before the start of its scope are moved after it.
 *
 * A dot of sm_90 runs while its warp continues. Its operands in registers are scaled and converted
 * before the marker of its start, and its results scaled after the marker of its end, because ptxas
 * fills the waits of other arithmetic with that.
 *
 * Measured on an H200: without this step a three-stage matmul with two scopes in its loop lost 6.9
 * % of its speed; see docs/design/intra-kernel-pass.md.
 */

#include "base/array.h"
#include "intra/llvm/ir_function.h"

#define NAMES_MAX 8191u    /* per group; more end the group */
#define REACH_LINES 16384u /* maximum distance from a marker to the instructions and to its wait */
#define LINE_NONE UINT32_MAX
#define FRAGMENTS "ldmatrix" /* loads operand fragments for a dot from shared memory */
/* The dots of sm_90, which run while their warps continue; the fence is before their operands. */
#define DOT_FENCE "@llvm.nvvm.wgmma.fence"
#define DOT_WAIT "wgmma.wait_group"

/* Kinds of values that move after a marker, with everything that depends on them. */
enum moved {
	MOVED_FRAGMENTS, /* operands of matrix instructions */
	MOVED_PLAIN_DOT, /* a dot in plain arithmetic */
	MOVED_PRODUCTS,  /* scaled results of dots */
};

/* Among the lines `first` to `end`, lines that qualify move before the line `to`. */
struct group {
	uint32_t to;
	uint32_t first;
	uint32_t end;
	enum moved moved;
};

struct motion {
	const struct ir_function *function;
	uint32_t *moves;       /* per line: destination plus 1; 0: stays */
	int32_t *loops;        /* per block: loop depth */
	struct ir_names names; /* values that depend on a wait or on fragments */
};

/* ------------------------------------------------------------------ lines */

/* True if the line defines a value by one of the instructions. */
static bool is_any_of(struct slice line, const char *opcodes)
{
	struct slice rest = ir_operation_of(line);

	return slice_is_any(slice_take_name(&rest), opcodes);
}

/*
 * Integer and pointer arithmetic: no memory access, no trap, no floats (those may be the work that
 * is measured).
 */
static bool is_movable(struct slice line)
{
	return is_any_of(line, "add sub mul shl lshr ashr and or xor icmp select zext sext trunc "
			       "ptrtoint inttoptr bitcast getelementptr") &&
	       !slice_find(line, "float") && !slice_find(line, "double");
}

/* A load from shared memory as LLVM prints it. A dot in plain arithmetic has such operands. */
static bool is_shared_load(struct slice line)
{
	return slice_find(line, " = load ") && slice_find(line, ", ptr addrspace(3) ") &&
	       !slice_find(line, " volatile ") && !slice_find(line, " atomic ");
}

static bool is_fused_multiply(struct slice line)
{
	return slice_find(line, " @llvm.fmuladd.") || slice_find(line, " @llvm.fma.");
}

static bool is_rearrangement(struct slice line)
{
	return is_any_of(line, "shufflevector extractelement insertelement fpext");
}

static bool is_float_arithmetic(struct slice line)
{
	return is_fused_multiply(line) || is_any_of(line, "fadd fsub fmul fneg fptrunc");
}

static bool is_product(struct slice line)
{
	return is_any_of(line, "fmul");
}

/* Scaling an accumulator, and converting an operand. */
static bool is_conversion(struct slice line)
{
	return is_product(line) || is_rearrangement(line) || is_any_of(line, "fptrunc bitcast");
}

/* A call with `word` in it. Markers are excluded, whatever the scope is called. */
static bool is_call_of(struct slice line, const char *word)
{
	return slice_find(line, " call ") && slice_find(line, word) &&
	       !slice_find(line, "\"// proton.");
}

/* The first line that is considered for the marker at `line`. */
static uint32_t reach_before(const struct ir_block *block, uint32_t line)
{
	uint32_t first = line > REACH_LINES ? line - REACH_LINES : 0;

	return first > block->first_line ? first : block->first_line;
}

/* Allowed between a wait and its marker: barriers, and unpacking the wait's results. */
static bool is_passed(struct slice line)
{
	return slice_find(line, "@llvm.nvvm.barrier") || slice_find(line, " = extractvalue ") ||
	       slice_starts(line, ";") || slice_starts(line, "#dbg") || is_movable(line);
}

/* ------------------------------------------------------------------ names */

static void forget_results(struct motion *motion)
{
	hash_table_clear(&motion->names.index);
}

static bool is_added(const struct motion *motion, struct slice name)
{
	return ir_names_find(&motion->names, name) != IR_NAME_NONE;
}

/* False if there are too many. */
static bool add_name(struct motion *motion, struct slice name)
{
	return is_added(motion, name) || ir_names_add(&motion->names, name, 0);
}

/* Adds the result of `line` to the names; false if there are too many. */
static bool add_result(struct motion *motion, struct slice line)
{
	struct slice name;

	return !slice_find(line, " = ") || !slice_starts(line, "%") ||
	       !slice_take_value(&line, '%', &name) || add_name(motion, name);
}

static struct slice operands_of(struct slice line)
{
	return slice_between(slice_find(line, " = "), slice_end(line));
}

static bool needs_added(const struct motion *motion, struct slice line)
{
	struct slice rest = operands_of(line);
	struct slice name;

	while (slice_take_value(&rest, '%', &name))
		if (is_added(motion, name))
			return true;
	return false;
}

/* ------------------------------------------------------------------ groups */

/* The line of the wait before the marker at `line`, or LINE_NONE. */
static uint32_t wait_before(const struct ir_function *function, const struct ir_block *block,
			    uint32_t line)
{
	uint32_t found = LINE_NONE;
	uint32_t limit = reach_before(block, line);

	while (line-- > limit) {
		struct slice text = function->lines[line];

		if (is_call_of(text, "wait"))
			found = line;
		else if (!is_passed(text))
			break;
	}
	return found;
}

/* True if the line defines a predicate, of which a thread has few registers. */
static bool is_predicate(struct slice line)
{
	return is_any_of(line, "icmp") || slice_find(line, ", i1 ") || slice_find(line, " to i1") ||
	       (is_any_of(line, "and or xor") && slice_find(line, " i1 "));
}

/* Adds the operands of `line` to the names; false if there are too many. */
static bool add_operands(struct motion *motion, struct slice line)
{
	struct slice rest = operands_of(line);
	struct slice name;

	while (slice_take_value(&rest, '%', &name))
		if (!add_name(motion, name))
			return false;
	return true;
}

static bool is_result_added(const struct motion *motion, struct slice line)
{
	struct slice name;

	return slice_take_value(&line, '%', &name) && is_added(motion, name);
}

/*
 * Predicates stay, unless what moves needs them: ptxas would keep many, such as a causal mask's, as
 * bits of registers until they are used.
 */
static void keep_predicates(struct motion *motion, const struct group *group)
{
	const struct slice *lines = motion->function->lines;
	bool is_complete = true;

	forget_results(motion);
	for (uint32_t i = group->end; i-- > group->first;) {
		if (!motion->moves[i])
			continue;
		if (!is_complete ||
		    (is_predicate(lines[i]) && !is_result_added(motion, lines[i]))) {
			motion->moves[i] = 0;
			continue;
		}
		is_complete = add_operands(motion, lines[i]);
	}
	for (uint32_t i = group->first; !is_complete && i < group->end; i++)
		motion->moves[i] = 0; /* all or none */
}

/* Selects what moves before the group's wait. */
static void find_moves(struct motion *motion, const struct group *group)
{
	const struct slice *lines = motion->function->lines;

	forget_results(motion);
	for (uint32_t i = group->to; i < group->first; i++)
		if (!add_result(motion, lines[i]))
			return;
	for (uint32_t i = group->first; i < group->end; i++) {
		/* Instructions after the next wait have that one to overlap with. */
		if (is_call_of(lines[i], "wait"))
			break;
		if (is_movable(lines[i]) && !needs_added(motion, lines[i]))
			motion->moves[i] = group->to + 1;
		else if (!add_result(motion, lines[i]))
			break;
	}
	keep_predicates(motion, group);
}

/*
 * The first line before the marker at `line` that loads or unpacks fragments. LINE_NONE if there is
 * nothing else between the markers: then the loads are what is measured.
 */
static uint32_t fragments_before(const struct ir_function *function, const struct ir_block *block,
				 uint32_t line)
{
	uint32_t limit = reach_before(block, line);

	while (line-- > limit) {
		struct slice text = function->lines[line];

		if (slice_find(text, "\"// proton."))
			return LINE_NONE;
		if (!is_call_of(text, FRAGMENTS) && !is_passed(text))
			return line + 1;
		if (slice_find(text, "@llvm.nvvm.barrier"))
			return line + 1;
	}
	return LINE_NONE;
}

/* The debug location of an instruction, "!30"; empty if there is none. */
static struct slice location_of(struct slice line)
{
	if (!slice_take_past(&line, ", !dbg "))
		line.length = 0;
	return slice_take_until(&line, ',');
}

/* The first instruction of the dot in plain arithmetic that follows the marker, or LINE_NONE. */
static uint32_t plain_dot_after(const struct ir_function *function, const struct ir_block *block,
				uint32_t marker)
{
	bool is_last = marker + 1 == block->first_marker + block->marker_count;
	uint32_t end = is_last ? block->end_line : function->markers[marker + 1].line;

	for (uint32_t i = function->markers[marker].line + 1; i < end; i++)
		if (is_fused_multiply(function->lines[i]))
			return i;
	return LINE_NONE;
}

/* True if one of the markers `first` to `last` is an end, or a start. */
static bool has_marker(const struct ir_function *function, uint32_t first, uint32_t last,
		       bool is_end)
{
	for (uint32_t i = first; i <= last; i++)
		if (function->markers[i].marker.is_end == is_end)
			return true;
	return false;
}

/*
 * As fragments_before(), for the dot with the instruction at `dot`. LLVM may have moved a part of
 * it before the start of its scope, and even before the end of another one. LINE_NONE if a scope
 * begins with the loads: then they are what is measured.
 */
static uint32_t plain_dot_before(const struct ir_function *function, const struct ir_block *block,
				 uint32_t first, uint32_t last, uint32_t dot)
{
	struct slice location = location_of(function->lines[dot]);
	uint32_t line = function->markers[first].line;
	uint32_t limit = reach_before(block, line);
	bool ends_scope = has_marker(function, first, last, true);

	while (line-- > limit) {
		struct slice text = function->lines[line];
		bool is_of_dot = location.length && is_fused_multiply(text) &&
				 slices_equal(location_of(text), location);

		if (slice_find(text, "\"// proton."))
			return slice_find(text, " start ") ? LINE_NONE : line + 1;
		if (slice_find(text, "@llvm.nvvm.barrier") ||
		    !(is_shared_load(text) || is_rearrangement(text) || is_passed(text) ||
		      is_of_dot || (!ends_scope && is_float_arithmetic(text))))
			return line + 1;
	}
	return LINE_NONE;
}

/*
 * The first line after the wait for a dot that is before the marker at `line`. LINE_NONE if there
 * is none, or more than scaling of its results between.
 */
static uint32_t products_before(const struct ir_function *function, const struct ir_block *block,
				uint32_t line)
{
	uint32_t limit = reach_before(block, line);

	while (line-- > limit) {
		struct slice text = function->lines[line];

		if (is_call_of(text, DOT_WAIT))
			return line + 1;
		if (!is_passed(text) && !is_rearrangement(text) && !is_float_arithmetic(text))
			break;
	}
	return LINE_NONE;
}

/* The line of the fence before a dot between `first` and `end`, or LINE_NONE. */
static uint32_t fence_after(const struct ir_function *function, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		if (is_call_of(function->lines[i], DOT_FENCE))
			return i;
	return LINE_NONE;
}

/*
 * Selects what moves before the markers at `group->to`, without what depends on lines from `later`
 * on that move after the markers.
 */
static void find_operands(struct motion *motion, const struct group *group, uint32_t later)
{
	const struct slice *lines = motion->function->lines;

	forget_results(motion);
	for (uint32_t i = later; i < group->to; i++)
		if (motion->moves[i] > group->to && !add_result(motion, lines[i]))
			return;
	for (uint32_t i = group->first; i < group->end; i++) {
		if (motion->moves[i]) /* before the wait, which is still earlier */
			continue;
		if (is_conversion(lines[i]) && !needs_added(motion, lines[i]))
			motion->moves[i] = group->to + 1;
		else if (!add_result(motion, lines[i]))
			break;
	}
}

static bool begins_moved(const struct group *group, struct slice line)
{
	if (group->moved == MOVED_PRODUCTS)
		return is_product(line);
	return group->moved == MOVED_PLAIN_DOT ? is_shared_load(line) : is_call_of(line, FRAGMENTS);
}

/* Selects what moves after the markers before `group->to`; true if anything does. */
static bool find_fragments(struct motion *motion, const struct group *group)
{
	const struct slice *lines = motion->function->lines;
	bool is_any = false;

	forget_results(motion);
	for (uint32_t i = group->first; i < group->end; i++) {
		bool is_first = begins_moved(group, lines[i]);

		if (!is_first && (!slice_find(lines[i], " = ") || !needs_added(motion, lines[i])))
			continue;
		/* All or none: the rest would be used before its definition. */
		if (!add_result(motion, lines[i])) {
			for (uint32_t back = group->first; back <= i; back++)
				if (motion->moves[back] == group->to + 1)
					motion->moves[back] = 0;
			return false;
		}
		motion->moves[i] = group->to + 1;
		is_any = true;
	}
	return is_any;
}

/*
 * Loop depth of each block, from text order: LLVM prints a loop's blocks between its header and its
 * back edge. NULL if out of memory.
 */
static int32_t *count_loops(const struct ir_function *function)
{
	int32_t *loops = calloc(function->block_count + 1, sizeof(*loops));

	if (!loops)
		return NULL;
	for (uint32_t b = 0; b < function->block_count; b++) {
		const struct ir_block *block = &function->blocks[b];

		for (uint32_t i = 0; i < block->successor_count; i++) {
			uint32_t to = function->successors[block->first_successor + i];

			if (to <= b) {
				loops[to]++;
				loops[b + 1]--;
			}
		}
	}
	for (uint32_t b = 1; b < function->block_count; b++)
		loops[b] += loops[b - 1];
	return loops;
}

/* Finds what moves after the adjacent markers `first` to `last`; true if anything does. */
static bool find_later(struct motion *motion, const struct ir_block *block, uint32_t first,
		       uint32_t last, struct group *group)
{
	const struct ir_function *function = motion->function;
	uint32_t line = function->markers[first].line;

	*group = (struct group){
		.to = function->markers[last].line + 1,
		.first = fragments_before(function, block, line),
		.end = line,
	};
	if (group->first != LINE_NONE && find_fragments(motion, group))
		return true;
	uint32_t dot = plain_dot_after(function, block, last);
	if (dot != LINE_NONE) {
		group->first = plain_dot_before(function, block, first, last, dot);
		group->moved = MOVED_PLAIN_DOT;
		if (group->first != LINE_NONE && find_fragments(motion, group))
			return true;
	}
	if (!has_marker(function, first, last, true))
		return false;
	group->first = products_before(function, block, line);
	group->moved = MOVED_PRODUCTS;
	return group->first != LINE_NONE && find_fragments(motion, group);
}

/* Handles the adjacent markers `first` to `last`. */
static void find_group(struct motion *motion, const struct ir_block *block, uint32_t first,
		       uint32_t last)
{
	const struct ir_function *function = motion->function;
	uint32_t line = function->markers[first].line;
	bool is_last = last + 1 == block->first_marker + block->marker_count;
	struct group work = {
		.to = wait_before(function, block, line),
		.first = function->markers[last].line + 1,
		.end = is_last ? block->end_line - 1 : function->markers[last + 1].line,
	};
	struct group operands = {.to = line, .first = work.first, .end = LINE_NONE};
	struct group later;
	bool is_later = find_later(motion, block, first, last, &later);

	if (work.end > work.first + REACH_LINES)
		work.end = work.first + REACH_LINES;
	if (work.to != LINE_NONE)
		find_moves(motion, &work);
	if (has_marker(function, first, last, false))
		operands.end = fence_after(function, work.first, work.end);
	if (operands.end != LINE_NONE)
		find_operands(motion, &operands, is_later ? later.first : line);
}

static void find_groups(struct motion *motion)
{
	const struct ir_function *function = motion->function;

	for (uint32_t b = 0; b < function->block_count; b++) {
		const struct ir_block *block = &function->blocks[b];
		uint32_t end = block->first_marker + block->marker_count;

		if (!motion->loops[b])
			continue;
		for (uint32_t m = block->first_marker; m < end; m++) {
			uint32_t first = m;

			while (m + 1 < end && function->markers[m + 1].follows)
				m++;
			find_group(motion, block, first, m);
		}
	}
}

int reschedule(const struct ir_function *function, char **text_out, size_t *length_out,
	       struct proton_error *err)
{
	struct motion motion = {.function = function};
	int status = PROTON_OK;

	*text_out = NULL;
	if (!function->marker_count || function->is_amd || !ir_function_can_rename(function))
		return PROTON_OK;
	motion.moves = calloc(function->line_count, sizeof(*motion.moves));
	motion.loops = count_loops(function);
	if (motion.moves && motion.loops && ir_names_init(&motion.names, NAMES_MAX)) {
		find_groups(&motion);
		status = ir_function_write_moved(function, motion.moves, text_out, length_out, err);
	} else {
		status = err_nomem(err);
	}
	FREE_ALL(motion.moves, motion.loops);
	ir_names_fini(&motion.names);
	return status;
}
