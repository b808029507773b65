/* Hoisting vectorized arithmetic: finds chains of operations and the marker to hoist them to. */
#include "intra/llvm/hoist_vector_ops.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "intra/llvm/debug_loc.h"

#define TREE_MAX 64u /* maximum number of lines that move together */

enum kind {
	KIND_OTHER,
	KIND_SCALAR, /* float arithmetic */
	KIND_PACK,   /* builds a vector from scalars or from another vector */
	KIND_VECTOR, /* arithmetic on float vectors */
};

/* An instruction and the value it defines. */
struct line {
	enum kind kind;
	uint32_t registers;      /* lower bound for the registers of the value */
	uint32_t region;         /* number of marker groups before it in its block */
	uint32_t uses;           /* of the value, in the whole function */
	uint32_t settled;        /* of these, uses in this block whose position is final */
	uint32_t settled_region; /* highest region of those uses */
	uint32_t tree;           /* the last tree that uses the value: line of its root, plus 1 */
	uint32_t tree_uses;
};

/* Instructions that move together: the root, the instructions that pack its operands, and so on. */
struct tree {
	uint32_t lines[TREE_MAX];
	uint32_t count;
	uint32_t region; /* lowest region where all operands are available */
};

struct hoisting {
	const struct ir_function *function;
	uint32_t *moves;
	struct hoist_vector_ops *hoists;
	struct line *lines;
	struct ir_names definitions; /* SSA names to lines */
	struct debug_lines sources;
	/* Of the current block: */
	uint32_t *runs; /* first line of each group of adjacent markers */
	size_t run_count;
	size_t run_capacity;
	uint64_t *evidence; /* source line << 32 | region, sorted */
	size_t evidence_count;
	size_t evidence_capacity;
	/* debug location << 32 | region of chained operations: an operand has the same location */
	uint64_t *chains;
	size_t chain_count;
	size_t chain_capacity;
	bool is_any;
};

/* ------------------------------------------------------------------ lines */

/* The text after " = "; empty if the instruction defines no value. */
static struct slice definition(struct slice line)
{
	const char *equals = slice_starts(line, "%") ? slice_find(line, " = ") : NULL;

	if (!equals)
		return (struct slice){NULL, 0};
	return (struct slice){equals + 3, (size_t)(line.at + line.length - equals - 3)};
}

static bool is_opcode(struct slice text, const char *const *opcodes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(opcodes[i]);

		if (text.length > length && memcmp(text.at, opcodes[i], length) == 0 &&
		    text.at[length] == ' ')
			return true;
	}
	return false;
}

/* True for float arithmetic: no side effects, no traps, and the same result anywhere. */
static bool is_arithmetic(struct slice text)
{
	static const char *const opcodes[] = {"fadd", "fsub", "fmul", "fneg"};
	static const char *const functions[] = {" @llvm.fma.", " @llvm.fmuladd.", " @llvm.maxnum.",
						" @llvm.minnum."};

	if (is_opcode(text, opcodes, ARRAY_LENGTH(opcodes)))
		return true;
	for (size_t i = 0; i < ARRAY_LENGTH(functions); i++)
		if (slice_find(text, functions[i]) && slice_find(text, "call "))
			return true;
	return false;
}

/* Registers of a value of the type at `text`, such as "<2 x float>"; 0 for other types. */
static uint32_t registers_of(struct slice text)
{
	static const char whole[][12] = {" x float>", " x i32>"};
	static const char half[][12] = {" x half>", " x bfloat>", " x i16>"};
	uint32_t count = 0;
	size_t at = 1;

	if (text.length < 2 || *text.at != '<')
		return 0;
	for (; at < text.length && text.at[at] >= '0' && text.at[at] <= '9' && count < 1000; at++)
		count = count * 10 + (uint32_t)(text.at[at] - '0');
	text.at += at;
	text.length -= at;
	for (size_t i = 0; i < ARRAY_LENGTH(whole); i++)
		if (slice_find(text, whole[i]) == text.at)
			return count;
	for (size_t i = 0; i < ARRAY_LENGTH(half); i++)
		if (slice_find(text, half[i]) == text.at)
			return (count + 1) / 2;
	return 0;
}

static struct slice rest_from(struct slice text, const char *at)
{
	return (struct slice){at, at ? (size_t)(text.at + text.length - at) : 0};
}

/* The type of a shuffle's mask, which has as many elements as its result; NULL. */
static const char *mask_type(struct slice text)
{
	static const char word[] = " x float>";
	const char *end = slice_find(text, ">");
	const char *found = NULL;

	if (!end || slice_find(text, word) != end - (sizeof(word) - 2))
		return NULL;
	while ((end = slice_find(rest_from(text, end), ", <")))
		found = end += 2;
	return found;
}

/* Kind of an instruction, and the registers of its result. */
static enum kind kind_of(struct slice line, uint32_t *registers_out)
{
	static const char *const casts[] = {"bitcast", "fpext", "fptrunc"};
	struct slice text = definition(line);
	const char *type;

	*registers_out = 1;
	if (!text.length)
		return KIND_OTHER;
	type = slice_find(text, "<");
	if (!type)
		return is_arithmetic(text) ? KIND_SCALAR : KIND_OTHER;
	if (is_opcode(text, casts, ARRAY_LENGTH(casts))) {
		type = slice_find(text, " to <");
		type = type ? type + 4 : NULL;
	} else if (slice_find(text, "shufflevector ") == text.at) {
		type = mask_type(text);
	} else if (slice_find(text, "insertelement ") != text.at && !is_arithmetic(text)) {
		return KIND_OTHER;
	}
	*registers_out = registers_of(rest_from(text, type));
	if (!*registers_out) {
		*registers_out = 1;
		return KIND_OTHER;
	}
	return is_arithmetic(text) ? KIND_VECTOR : KIND_PACK;
}

/* Line that defines the next operand of `line` after *at; IR_NAME_NONE: not an instruction. */
static bool next_operand(const struct hoisting *hoisting, struct slice line, const char **at,
			 uint32_t *out)
{
	struct slice name = ir_next_name(line, at);

	if (name.length)
		*out = ir_names_find(&hoisting->definitions, name);
	return name.length;
}

/* ------------------------------------------------------------------ the function */

static bool is_within(const struct ir_block *block, uint32_t line)
{
	return line >= block->first_line && line < block->end_line;
}

static bool has_runs(const struct ir_function *function, const struct ir_block *block)
{
	uint32_t runs = 0;

	for (uint32_t m = 0; m < block->marker_count; m++)
		runs += !function->markers[block->first_marker + m].follows;
	return runs >= 2;
}

/* Classifies all instructions; true if any could move. */
static bool find_kinds(struct hoisting *hoisting)
{
	const struct ir_function *function = hoisting->function;
	bool is_any = false;

	for (uint32_t b = 0; b < function->block_count; b++) {
		const struct ir_block *block = &function->blocks[b];

		if (!has_runs(function, block))
			continue;
		for (uint32_t i = block->first_line; i < block->end_line; i++) {
			struct line *line = &hoisting->lines[i];

			line->kind = kind_of(function->lines[i], &line->registers);
			is_any |= line->kind == KIND_VECTOR;
		}
	}
	return is_any;
}

/* Finds definitions and counts uses. False if SSA names cannot be parsed. */
static bool find_values(struct hoisting *hoisting)
{
	const struct ir_function *function = hoisting->function;
	uint32_t used;

	for (uint32_t i = function->define_line + 1; i < function->end_line; i++) {
		struct slice line = function->lines[i];
		const char *at = line.at;

		if (definition(line).length &&
		    !ir_names_add(&hoisting->definitions, ir_next_name(line, &at), i))
			return false;
	}
	for (uint32_t i = function->define_line + 1; i < function->end_line; i++) {
		struct slice line = function->lines[i];
		struct slice text = definition(line);
		const char *at = text.at ? text.at : line.at;

		while (next_operand(hoisting, line, &at, &used))
			if (used != IR_NAME_NONE)
				hoisting->lines[used].uses++;
	}
	return true;
}

/* ------------------------------------------------------------------ a block */

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static uint32_t region_at(const struct hoisting *hoisting, uint32_t line)
{
	size_t low = 0;
	size_t high = hoisting->run_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (hoisting->runs[middle] <= line)
			low = middle + 1;
		else
			high = middle;
	}
	return (uint32_t)low;
}

/*
 * Regions of the block's instructions; those that reschedule.c moves count at their new position.
 */
static bool find_regions(struct hoisting *hoisting, const struct ir_block *block)
{
	const struct ir_function *function = hoisting->function;
	uint32_t end = block->first_marker + block->marker_count;
	uint32_t marker = block->first_marker;

	hoisting->run_count = 0;
	for (uint32_t i = block->first_line; i < block->end_line; i++) {
		if (marker < end && function->markers[marker].line == i &&
		    !function->markers[marker++].follows) {
			if (!array_reserve(&hoisting->runs, &hoisting->run_capacity,
					   hoisting->run_count + 1, sizeof(*hoisting->runs)))
				return false;
			hoisting->runs[hoisting->run_count++] = i;
		}
		hoisting->lines[i].region = (uint32_t)hoisting->run_count;
	}
	for (uint32_t i = block->first_line; i < block->end_line; i++)
		if (hoisting->moves[i])
			hoisting->lines[i].region = region_at(hoisting, hoisting->moves[i] - 1);
	return true;
}

static bool add_location(uint64_t **locations, size_t *count, size_t *capacity, uint32_t location,
			 uint32_t region)
{
	if (!array_reserve(locations, capacity, *count + 1, sizeof(**locations)))
		return false;
	(*locations)[(*count)++] = (uint64_t)location << 32 | region;
	return true;
}

/* True if an operand is an operation of the same kind, location and region. */
static bool is_chained(const struct hoisting *hoisting, const struct ir_block *block, uint32_t line)
{
	struct slice text = hoisting->function->lines[line];
	const struct line *user = &hoisting->lines[line];
	const char *at = definition(text).at;
	uint32_t used;

	while (next_operand(hoisting, text, &at, &used))
		if (used != IR_NAME_NONE && is_within(block, used) &&
		    hoisting->lines[used].kind == user->kind &&
		    hoisting->lines[used].region == user->region &&
		    debug_loc_of(hoisting->function, used) ==
			    debug_loc_of(hoisting->function, line))
			return true;
	return false;
}

static bool is_operation(const struct line *line)
{
	return line->kind == KIND_SCALAR || line->kind == KIND_VECTOR;
}

/* True for scalars, calls and the like: LLVM left them where the source has them. */
static bool is_evidence(const struct hoisting *hoisting, uint32_t line)
{
	struct slice text = hoisting->function->lines[line];

	if (hoisting->lines[line].kind == KIND_OTHER)
		return slice_find(text, " call ") && !slice_find(text, "\"// proton.");
	return hoisting->lines[line].kind == KIND_SCALAR;
}

/* Collects the evidence and the chains of the block. False if out of memory. */
static bool find_locations(struct hoisting *hoisting, const struct ir_block *block)
{
	hoisting->evidence_count = 0;
	hoisting->chain_count = 0;
	for (uint32_t i = block->first_line; i < block->end_line; i++) {
		uint32_t region = hoisting->lines[i].region;
		uint32_t location = debug_loc_of(hoisting->function, i);

		if (location == IR_NAME_NONE)
			continue;
		if (is_evidence(hoisting, i) &&
		    !add_location(&hoisting->evidence, &hoisting->evidence_count,
				  &hoisting->evidence_capacity,
				  debug_line_of(&hoisting->sources, i), region))
			return false;
		if (is_operation(&hoisting->lines[i]) && is_chained(hoisting, block, i) &&
		    !add_location(&hoisting->chains, &hoisting->chain_count,
				  &hoisting->chain_capacity, location, region))
			return false;
	}
	if (hoisting->evidence_count)
		qsort(hoisting->evidence, hoisting->evidence_count, sizeof(*hoisting->evidence),
		      compare_numbers);
	if (hoisting->chain_count)
		qsort(hoisting->chains, hoisting->chain_count, sizeof(*hoisting->chains),
		      compare_numbers);
	return true;
}

static bool has_location(const uint64_t *locations, size_t count, uint32_t location,
			 uint32_t region)
{
	uint64_t wanted = (uint64_t)location << 32 | region;

	return count && bsearch(&wanted, locations, count, sizeof(*locations), compare_numbers);
}

static bool may_move(const struct hoisting *hoisting, uint32_t line)
{
	return hoisting->lines[line].kind >= KIND_PACK && !hoisting->moves[line];
}

/* The position of `line` is final: it uses its operands in `region`. */
static void settle(struct hoisting *hoisting, uint32_t line, uint32_t region)
{
	struct slice text = hoisting->function->lines[line];
	struct slice after = definition(text);
	const char *at = after.at ? after.at : text.at;
	uint32_t used;

	while (next_operand(hoisting, text, &at, &used)) {
		struct line *value = used == IR_NAME_NONE ? NULL : &hoisting->lines[used];

		if (!value)
			continue;
		value->settled++;
		if (value->settled_region < region)
			value->settled_region = region;
	}
}

/* Collects what must move with `root`. False if there is too much. */
static bool find_tree(struct hoisting *hoisting, const struct ir_block *block, uint32_t root,
		      struct tree *tree)
{
	uint32_t region = hoisting->lines[root].region;
	uint32_t used;

	*tree = (struct tree){.lines = {root}, .count = 1};
	/* In unreachable code a value may depend on itself. */
	hoisting->lines[root].tree = root + 1;
	hoisting->lines[root].tree_uses = 0;
	for (uint32_t i = 0; i < tree->count; i++) {
		struct slice text = hoisting->function->lines[tree->lines[i]];
		const char *at = definition(text).at;

		while (next_operand(hoisting, text, &at, &used)) {
			struct line *value = used == IR_NAME_NONE ? NULL : &hoisting->lines[used];

			/* Defined in another block: available. */
			if (!value || !is_within(block, used))
				continue;
			if (value->tree == root + 1) {
				value->tree_uses++;
				continue;
			}
			value->tree = root + 1;
			value->tree_uses = 1;
			if (may_move(hoisting, used) && value->region == region) {
				if (tree->count == TREE_MAX)
					return false;
				tree->lines[tree->count++] = used;
			} else if (value->region > tree->region) {
				tree->region = value->region;
			}
		}
	}
	return true;
}

/* True if the hoisted tree keeps no more registers alive than it frees. */
static bool is_worth_it(struct hoisting *hoisting, const struct ir_block *block,
			const struct tree *tree)
{
	uint32_t freed = 0;
	uint32_t kept = hoisting->lines[tree->lines[0]].registers;
	uint32_t used;

	for (uint32_t i = 1; i < tree->count; i++) {
		const struct line *line = &hoisting->lines[tree->lines[i]];

		if (line->uses > line->tree_uses)
			kept += line->registers;
	}
	for (uint32_t i = 0; i < tree->count; i++) {
		struct slice text = hoisting->function->lines[tree->lines[i]];
		const char *at = definition(text).at;

		while (next_operand(hoisting, text, &at, &used)) {
			struct line *value = used == IR_NAME_NONE ? NULL : &hoisting->lines[used];

			if (!value || !is_within(block, used) || !value->tree_uses)
				continue;
			if (!(may_move(hoisting, used) &&
			      value->region == hoisting->lines[tree->lines[0]].region) &&
			    value->uses == value->tree_uses + value->settled &&
			    value->settled_region <= tree->region)
				freed += value->registers;
			value->tree_uses = 0; /* count each value once */
		}
	}
	return freed >= kept;
}

static int compare_lines(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a;
	uint32_t right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* Hoists to the end of the region: in text order, after what is already there. */
static void hoist_tree(struct hoisting *hoisting, struct tree *tree)
{
	uint32_t to = hoisting->runs[tree->region];
	struct hoist_vector_ops *there = &hoisting->hoists[to];

	qsort(tree->lines, tree->count, sizeof(*tree->lines), compare_lines);
	for (uint32_t i = 0; i < tree->count; i++) {
		uint32_t line = tree->lines[i];

		if (there->first)
			hoisting->hoists[there->last - 1].next = line + 1;
		else
			there->first = line + 1;
		there->last = line + 1;
		hoisting->moves[line] = to + 1;
		hoisting->lines[line].region = tree->region;
		settle(hoisting, line, tree->region);
	}
	hoisting->is_any = true;
}

static bool may_be_root(const struct hoisting *hoisting, uint32_t line)
{
	const struct line *root = &hoisting->lines[line];
	uint32_t location = debug_loc_of(hoisting->function, line);

	return is_operation(root) && !hoisting->moves[line] && location != IR_NAME_NONE &&
	       has_location(hoisting->chains, hoisting->chain_count, location, root->region);
}

static bool hoist_block(struct hoisting *hoisting, const struct ir_block *block)
{
	struct tree tree;

	if (!find_regions(hoisting, block) || !find_locations(hoisting, block))
		return false;
	for (uint32_t i = block->first_line; i < block->end_line; i++) {
		if (may_be_root(hoisting, i) && find_tree(hoisting, block, i, &tree) &&
		    tree.region < hoisting->lines[i].region &&
		    has_location(hoisting->evidence, hoisting->evidence_count,
				 debug_line_of(&hoisting->sources, i), tree.region) &&
		    is_worth_it(hoisting, block, &tree))
			hoist_tree(hoisting, &tree);
		else if (hoisting->lines[i].kind < KIND_PACK)
			settle(hoisting, i, hoisting->lines[i].region);
	}
	return true;
}

static bool hoist_all(struct hoisting *hoisting)
{
	const struct ir_function *function = hoisting->function;

	hoisting->lines = calloc(function->line_count, sizeof(*hoisting->lines));
	if (!hoisting->lines)
		return false;
	if (!find_kinds(hoisting))
		return true;
	hoisting->hoists = calloc(function->line_count, sizeof(*hoisting->hoists));
	if (!hoisting->hoists ||
	    !ir_names_init(&hoisting->definitions, function->end_line - function->define_line))
		return false;
	if (!find_values(hoisting))
		return true;
	if (!debug_lines_init(&hoisting->sources, function))
		return false;
	for (uint32_t b = 0; b < function->block_count; b++)
		if (has_runs(function, &function->blocks[b]) &&
		    !hoist_block(hoisting, &function->blocks[b]))
			return false;
	return true;
}

bool hoist_vector_ops(const struct ir_function *function, uint32_t *moves,
		      struct hoist_vector_ops **hoists_out)
{
	struct hoisting hoisting = {.function = function, .moves = moves};
	bool is_done = hoist_all(&hoisting);

	free(hoisting.lines);
	free(hoisting.runs);
	free(hoisting.evidence);
	free(hoisting.chains);
	debug_lines_fini(&hoisting.sources);
	ir_names_fini(&hoisting.definitions);
	*hoists_out = is_done && hoisting.is_any ? hoisting.hoists : NULL;
	if (!*hoists_out)
		free(hoisting.hoists);
	return is_done;
}
