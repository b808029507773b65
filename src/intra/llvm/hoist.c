/*
 * Hoisting of vectorized float arithmetic back to the values it uses. LLVM pairs additions of an
 * unrolled loop into vectors and puts chains of them at the end of the block, after all markers.
 * ptxas moves nothing across a clock read, so all loaded values stay in registers until then.
 *
 * Work that a scope measures must not leave it, so evidence is required. An operation moves only if
 * its region (between two groups of markers) has a chain of vector operations with its debug
 * location, and if the region it moves to has both a value that it uses and another instruction of
 * the same source line. Operations do not change, so results are bit-identical.
 *
 * Not done for every kernel, because then a scope waits for the loads in it. Whether it pays is
 * decided by what the assembler makes of both texts; see docs/design/intra-kernel-pass.md.
 */

#include "base/array.h"
#include "base/hash.h"
#include "intra/llvm/ir_function.h"

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
	uint32_t region; /* number of marker groups before it in its block */
	uint32_t tree;   /* the last tree that uses the value: line of its root, plus 1 */
};

/* Instructions that move together: the root and the vectors that are built for it. */
struct tree {
	uint32_t lines[TREE_MAX];
	uint32_t count;
	uint32_t region;       /* the first in which all operands are available */
	uint32_t other_region; /* the same for operands that are not arithmetic */
};

struct hoisting {
	const struct ir_function *function;
	struct line *lines;
	struct ir_names definitions; /* SSA names to lines */
	uint64_t *sources;           /* by debug location: hash of its source line */
	struct hash_table evidence;  /* source lines and regions of the block */
	struct hash_table chains;    /* debug locations and regions of the block */
	uint32_t *groups;            /* first line of each group of adjacent markers of the block */
	size_t group_count;
	uint32_t *moves; /* by line: where it moves to, plus 1 */
};

/* ------------------------------------------------------------------ lines */

/* True for float arithmetic: no side effects, no traps, and the same result anywhere. */
static bool is_arithmetic(struct slice text)
{
	static const char *const functions[] = {" @llvm.fma.", " @llvm.fmuladd.", " @llvm.maxnum.",
						" @llvm.minnum."};
	struct slice rest = text;

	if (slice_is_any(slice_take_name(&rest), "fadd fsub fmul fneg"))
		return true;
	for (size_t i = 0; i < ARRAY_LENGTH(functions); i++)
		if (slice_find(text, functions[i]))
			return slice_find(text, "call ");
	return false;
}

static enum kind kind_of(struct slice line)
{
	struct slice text = ir_operation_of(line);
	bool is_vector = slice_find(text, " x float>") || slice_find(text, " x half>") ||
			 slice_find(text, " x bfloat>");
	struct slice rest = text;
	struct slice opcode = slice_take_name(&rest);

	if (is_arithmetic(text))
		return is_vector ? KIND_VECTOR : KIND_SCALAR;
	if (slice_is_any(opcode, "insertelement extractelement shufflevector") ||
	    (slice_find(text, "<") && slice_is_any(opcode, "bitcast fpext fptrunc")))
		return KIND_PACK;
	return KIND_OTHER;
}

/* The number of the debug location of a line, "!dbg !30"; 0 if it has none that is known. */
static uint32_t location_of(const struct hoisting *hoisting, uint32_t line)
{
	struct slice rest = hoisting->function->lines[line];
	uint32_t number;

	return slice_take_past(&rest, ", !dbg !") &&
			       slice_take_number(&rest, hoisting->function->line_count - 1,
						 &number) &&
			       hoisting->sources[number]
		       ? number
		       : 0;
}

static uint64_t evidence_of(const struct hoisting *hoisting, uint32_t location, uint32_t region)
{
	return hash_u64(hoisting->sources[location] + region);
}

/*
 * The line, in `block` too, that defines the next value in `rest`; false: there are no more.
 * IR_NAME_NONE: it is available everywhere in the block.
 */
static bool take_operand(const struct hoisting *hoisting, const struct ir_block *block,
			 struct slice *rest, uint32_t *out)
{
	struct slice name;
	bool is_found = slice_take_value(rest, '%', &name);

	*out = is_found ? ir_names_find(&hoisting->definitions, name) : IR_NAME_NONE;
	if (*out < block->first_line || *out >= block->end_line)
		*out = IR_NAME_NONE;
	return is_found;
}

/* ------------------------------------------------------------------ the module */

/*
 * Hashes the source lines of debug locations ("!7 = !DILocation(line: 3, column: 9, scope: !4,
 * inlinedAt: !5)"): columns are omitted, because a load and the addition of its result differ in
 * them. There is one per line, so valid numbers are below the line count.
 */
static void find_sources(struct hoisting *hoisting)
{
	const struct ir_function *function = hoisting->function;

	for (uint32_t i = function->end_line; i < function->line_count; i++) {
		struct slice rest = function->lines[i];
		const char *column = slice_find(rest, "column: ");
		const char *after = column ? slice_find(rest, ", scope: ") : NULL;
		const char *first = slice_find(rest, "!DILocation(");
		uint32_t number;

		if (!first || !after || after < column || column < first ||
		    !slice_take(&rest, "!") ||
		    !slice_take_number(&rest, function->line_count - 1, &number))
			continue;
		hoisting->sources[number] =
			hash_u64(hash_bytes(first, (size_t)(column - first)) ^
				 hash_u64(hash_bytes(after, (size_t)(slice_end(rest) - after)))) |
			1;
	}
}

/* Classifies the instructions of the kernel; true if one of them could move. */
static bool find_values(struct hoisting *hoisting)
{
	const struct ir_function *function = hoisting->function;
	bool has_vectors = false;

	for (uint32_t i = function->define_line + 1; i < function->end_line; i++) {
		struct slice line = function->lines[i];
		struct slice name;

		if (!ir_operation_of(line).length || !slice_take_value(&line, '%', &name))
			continue;
		hoisting->lines[i].kind = kind_of(function->lines[i]);
		has_vectors |= hoisting->lines[i].kind == KIND_VECTOR;
		ir_names_add(&hoisting->definitions, name, i);
	}
	return has_vectors;
}

/* ------------------------------------------------------------------ a block */

static bool find_regions(struct hoisting *hoisting, const struct ir_block *block)
{
	const struct ir_marker *markers = &hoisting->function->markers[block->first_marker];
	uint32_t next = 0;

	hoisting->group_count = 0;
	for (uint32_t i = block->first_line; i < block->end_line; i++) {
		if (next < block->marker_count && markers[next].line == i &&
		    !markers[next++].follows &&
		    !ARRAY_ADD(hoisting->groups, hoisting->group_count, i))
			return false;
		hoisting->lines[i].region = (uint32_t)hoisting->group_count;
	}
	return true;
}

/* True if a vector operation uses another one with the same debug location and in its region. */
static bool is_chained(const struct hoisting *hoisting, const struct ir_block *block, uint32_t line,
		       uint32_t location)
{
	const struct line *user = &hoisting->lines[line];
	struct slice rest = ir_operation_of(hoisting->function->lines[line]);
	uint32_t used;

	if (user->kind == KIND_VECTOR)
		while (take_operand(hoisting, block, &rest, &used))
			if (used != IR_NAME_NONE && hoisting->lines[used].kind == KIND_VECTOR &&
			    hoisting->lines[used].region == user->region &&
			    location_of(hoisting, used) == location)
				return true;
	return false;
}

/* True for scalars, calls and the like: LLVM left them where the source has them. */
static bool is_evidence(const struct hoisting *hoisting, uint32_t line)
{
	struct slice text = hoisting->function->lines[line];

	return hoisting->lines[line].kind == KIND_SCALAR ||
	       (hoisting->lines[line].kind == KIND_OTHER && slice_find(text, " call ") &&
		!slice_find(text, "\"// proton."));
}

/* Collects the evidence and the chains of the block. False if out of memory. */
static bool find_locations(struct hoisting *hoisting, const struct ir_block *block)
{
	hash_table_clear(&hoisting->evidence);
	hash_table_clear(&hoisting->chains);
	for (uint32_t i = block->first_line; i < block->end_line; i++) {
		uint32_t region = hoisting->lines[i].region;
		uint32_t location = location_of(hoisting, i);

		if (!location)
			continue;
		if (is_evidence(hoisting, i) &&
		    !hash_table_add(&hoisting->evidence, evidence_of(hoisting, location, region),
				    1))
			return false;
		if (is_chained(hoisting, block, i, location) &&
		    !hash_table_add(&hoisting->chains, hash_pair(location, region), 1))
			return false;
	}
	return true;
}

/* Collects what must move with `root`. False if that is too much. */
static bool find_tree(struct hoisting *hoisting, const struct ir_block *block, uint32_t root,
		      struct tree *tree)
{
	uint32_t region = hoisting->lines[root].region;

	*tree = (struct tree){.lines = {root}, .count = 1};
	hoisting->lines[root].tree = root + 1;
	for (uint32_t i = 0; i < tree->count; i++) {
		struct slice rest = ir_operation_of(hoisting->function->lines[tree->lines[i]]);
		uint32_t used;

		while (take_operand(hoisting, block, &rest, &used)) {
			struct line *value = used == IR_NAME_NONE ? NULL : &hoisting->lines[used];

			if (!value || value->tree == root + 1)
				continue;
			value->tree = root + 1;
			if (value->kind >= KIND_PACK && value->region == region) {
				if (tree->count == TREE_MAX)
					return false;
				tree->lines[tree->count++] = used;
				continue;
			}
			if (value->region > tree->region)
				tree->region = value->region;
			if (value->kind == KIND_OTHER && value->region > tree->other_region)
				tree->other_region = value->region;
		}
	}
	return true;
}

static bool may_hoist(const struct hoisting *hoisting, const struct tree *tree)
{
	uint32_t root = tree->lines[0];
	uint32_t location = location_of(hoisting, root);

	return tree->region < hoisting->lines[root].region && tree->region == tree->other_region &&
	       hash_table_find(&hoisting->evidence, evidence_of(hoisting, location, tree->region));
}

/* Finds what moves in the block. False if out of memory. */
static bool hoist_block(struct hoisting *hoisting, const struct ir_block *block)
{
	struct tree tree;

	if (!find_regions(hoisting, block))
		return false;
	if (hoisting->group_count < 2)
		return true;
	if (!find_locations(hoisting, block))
		return false;
	for (uint32_t i = block->first_line; i < block->end_line && hoisting->chains.count; i++) {
		const struct line *line = &hoisting->lines[i];

		if ((line->kind != KIND_SCALAR && line->kind != KIND_VECTOR) ||
		    !hash_table_find(&hoisting->chains,
				     hash_pair(location_of(hoisting, i), line->region)) ||
		    !find_tree(hoisting, block, i, &tree) || !may_hoist(hoisting, &tree))
			continue;
		for (uint32_t t = 0; t < tree.count; t++) {
			hoisting->moves[tree.lines[t]] = hoisting->groups[tree.region] + 1;
			hoisting->lines[tree.lines[t]].region = tree.region;
		}
	}
	return true;
}

static bool find_moves(struct hoisting *hoisting)
{
	const struct ir_function *function = hoisting->function;

	hoisting->lines = calloc(function->line_count, sizeof(*hoisting->lines));
	hoisting->sources = calloc(function->line_count, sizeof(*hoisting->sources));
	hoisting->moves = calloc(function->line_count, sizeof(*hoisting->moves));
	if (!hoisting->lines || !hoisting->sources || !hoisting->moves ||
	    !ir_names_init(&hoisting->definitions, function->end_line - function->define_line))
		return false;
	if (!find_values(hoisting))
		return true;
	find_sources(hoisting);
	for (uint32_t b = 0; b < function->block_count; b++)
		if (!hoist_block(hoisting, &function->blocks[b]))
			return false;
	return true;
}

int hoist(const struct ir_function *function, char **text_out, size_t *length_out,
	  struct proton_error *err)
{
	struct hoisting hoisting = {.function = function};
	int status;

	*text_out = NULL;
	if (function->marker_count < 2 || function->is_amd || !ir_function_can_rename(function))
		return PROTON_OK;
	if (find_moves(&hoisting))
		status = ir_function_write_moved(function, hoisting.moves, text_out, length_out,
						 err);
	else
		status = err_nomem(err);
	FREE_ALL(hoisting.lines, hoisting.sources, hoisting.groups, hoisting.moves);
	hash_table_fini(&hoisting.evidence);
	hash_table_fini(&hoisting.chains);
	ir_names_fini(&hoisting.definitions);
	return status;
}
