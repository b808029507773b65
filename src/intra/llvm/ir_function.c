/* Parser for the body of an LLVM IR function: basic blocks, markers and control flow. */
#include "intra/llvm/ir_function.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define ENTRY_MAX 1000000u

/* The label that a line defines; empty if none. */
static struct slice label_of(struct slice line)
{
	struct slice name = ir_name_at(line.at, line.at + line.length);

	if (!name.length || name.length >= line.length || name.at[name.length] != ':')
		name.length = 0;
	return name;
}

/* ------------------------------------------------------------------ blocks */

static bool is_terminator(struct slice line)
{
	return slice_starts(line, "ret ") || slice_starts(line, "br ") ||
	       slice_starts(line, "switch ") || slice_starts(line, "unreachable");
}

static bool add_marker(struct ir_function *function, size_t *capacity, uint32_t line, bool follows)
{
	struct ir_marker marker;

	if (!ir_marker_of(function->lines[line], &marker))
		return true;
	marker.line = line;
	marker.follows = follows;
	return ARRAY_ADD(function->markers, *capacity, function->marker_count, marker);
}

struct body {
	struct ir_function *function;
	size_t block_capacity;
	size_t marker_capacity;
	struct ir_block *block;
	bool ended;                 /* the block has its terminator */
	bool follows_marker;        /* the previous instruction is a marker */
	const struct ir_call *call; /* the next call */
	const struct ir_call *calls_end;
};

static bool begin_block(struct body *body, struct slice label, uint32_t line)
{
	struct ir_function *function = body->function;
	struct ir_block block = {
		.label = label,
		.first_line = line,
		.end_line = line,
		.first_marker = function->marker_count,
	};

	if (!ARRAY_ADD(function->blocks, body->block_capacity, function->block_count, block))
		return false;
	body->block = &function->blocks[function->block_count - 1];
	body->ended = false;
	body->follows_marker = false;
	return true;
}

/* A call of an instrumented callee ends the block; a block with the same label follows. */
static bool end_at_call(struct body *body, uint32_t line)
{
	struct slice label = body->block->label;

	body->block->call = body->call++;
	if (!begin_block(body, label, line + 1))
		return false;
	body->block->continues = true;
	return true;
}

/* The last line of the terminator: a switch ends at the line with its "]". */
static uint32_t end_block(struct body *body, uint32_t line)
{
	const struct ir_function *function = body->function;
	bool is_switch = slice_starts(function->lines[line], "switch ");

	body->block->is_return = slice_starts(function->lines[line], "ret ");
	body->ended = true;
	while (is_switch && line < function->end_line && !slice_find(function->lines[line], "]"))
		line++;
	return line;
}

static int read_instruction(struct body *body, uint32_t *at, struct proton_error *err)
{
	struct ir_function *function = body->function;
	uint32_t markers = function->marker_count;
	uint32_t line = *at;

	if (!body->block && !begin_block(body, (struct slice){NULL, 0}, line))
		return err_nomem(err);
	if (body->ended)
		return ir_parse_error(line, err);
	if (!add_marker(function, &body->marker_capacity, line, body->follows_marker))
		return err_nomem(err);
	body->follows_marker = function->marker_count > markers;
	body->block->marker_count += body->follows_marker;
	if (is_terminator(function->lines[line])) {
		*at = end_block(body, line);
		if (*at == function->end_line)
			return ir_parse_error(*at, err);
	}
	body->block->end_line = *at + 1;
	while (body->call < body->calls_end && body->call->line < line)
		body->call++;
	if (body->call < body->calls_end && body->call->line == line && !end_at_call(body, line))
		return err_nomem(err);
	return PROTON_OK;
}

/* Finds the blocks and markers between "define" and "}". */
static int read_blocks(struct ir_function *function, struct proton_error *err)
{
	const struct callees *callees = function->callees;
	struct body body = {.function = function};

	if (callees) {
		body.call = callees->calls +
			    ARRAY_COUNT_BEFORE(callees->call_count, i,
					       callees->calls[i].line < function->define_line);
		body.calls_end = callees->calls + callees->call_count;
	}
	for (uint32_t i = function->define_line + 1; i < function->end_line; i++) {
		struct slice line = function->lines[i];
		struct slice label = label_of(line);
		int status = PROTON_OK;

		if (label.length) {
			if (body.block && !body.ended)
				return ir_parse_error(i, err);
			function->entry_has_label |= !body.block;
			if (!begin_block(&body, label, i + 1))
				return err_nomem(err);
		} else if (ir_is_instruction(line)) {
			status = read_instruction(&body, &i, err);
		}
		if (status != PROTON_OK)
			return status;
	}
	if (!body.block || !body.ended)
		return ir_parse_error(function->end_line, err);
	return PROTON_OK;
}

static bool add_successor(struct ir_function *function, size_t *capacity, struct ir_block *block,
			  uint32_t target)
{
	block->successor_count++;
	return ARRAY_ADD(function->successors, *capacity, function->successor_count, target);
}

static int read_edges(struct ir_function *function, const struct ir_names *labels,
		      struct proton_error *err)
{
	size_t capacity = 0;

	for (uint32_t b = 0; b < function->block_count; b++) {
		struct ir_block *block = &function->blocks[b];
		uint32_t line = block->end_line;

		block->first_successor = function->successor_count;
		if (block->call || block->is_return) {
			uint32_t next = block->call ? b + 1 : function->block_count;

			if (!add_successor(function, &capacity, block, next))
				return err_nomem(err);
			continue;
		}
		/* Back to the terminator's first line. */
		while (line > block->first_line && !is_terminator(function->lines[line - 1]))
			line--;
		for (line = line ? line - 1 : 0; line < block->end_line; line++) {
			struct slice text = function->lines[line];

			while (slice_take_past(&text, "label %")) {
				struct slice label = ir_name_at(text.at, slice_end(text));
				uint32_t target = ir_names_find(labels, label);

				/* The entry block has no predecessors. */
				if (target == IR_NAME_NONE || target == 0)
					return ir_parse_error(line, err);
				if (!add_successor(function, &capacity, block, target))
					return err_nomem(err);
				slice_skip(&text, label.length);
			}
		}
	}
	return PROTON_OK;
}

static int link_blocks(struct ir_function *function, struct proton_error *err)
{
	struct ir_names labels;
	int status;

	if (!ir_names_init(&labels, function->block_count))
		return err_nomem(err);
	for (uint32_t b = 0; b < function->block_count; b++) {
		const struct ir_block *block = &function->blocks[b];

		/* The entry may have no label. */
		if (block->label.length && !block->continues &&
		    !ir_names_add(&labels, block->label, b)) {
			ir_names_fini(&labels);
			return ir_parse_error(block->first_line - 1, err);
		}
	}
	status = read_edges(function, &labels, err);
	ir_names_fini(&labels);
	return status;
}

int ir_function_read_body(struct ir_function *function, struct proton_error *err)
{
	int status = read_blocks(function, err);

	return status == PROTON_OK ? link_blocks(function, err) : status;
}

/* ------------------------------------------------------------------ the function */

uint32_t ir_function_entry_number(const struct ir_function *function)
{
	struct slice arguments = function->signature.arguments;
	struct slice last = function->last_parameter;
	struct slice name;
	uint32_t number = 0;

	if (function->is_callee) {
		while (slice_take_value(&arguments, '%', &name))
			number += ir_is_number(name);
		return number;
	}
	slice_take(&last, "%");
	return slice_take_number(&last, ENTRY_MAX, &number) && !last.length ? number + 1 : 0;
}

bool ir_function_can_rename(const struct ir_function *function)
{
	for (uint32_t i = 0; i < function->define_line; i++)
		if (function->lines[i].length && *function->lines[i].at == '%' &&
		    slice_find(function->lines[i], " = type "))
			return false;
	return true;
}

/* Writes a line of the function with names for unnamed values. */
static void write_named(struct slice line, struct out *out)
{
	struct slice rest = line;
	const char *done = line.at;
	struct slice name;
	uint32_t number;

	if (slice_take_number(&rest, UINT32_MAX, &number) && slice_take(&rest, ":"))
		out_text(out, "proton.v."); /* a label */
	for (rest = line; slice_take_value(&rest, '%', &name);) {
		if (!ir_is_number(name))
			continue;
		out_bytes(out, done, (size_t)(name.at - done));
		out_text(out, "%proton.v.");
		done = name.at + 1;
	}
	out_bytes(out, done, (size_t)(slice_end(line) - done));
}

static void write_line(const struct ir_function *function, uint32_t line, struct out *out)
{
	if (line < function->define_line || line > function->end_line)
		out_bytes(out, function->lines[line].at, function->lines[line].length);
	else
		write_named(function->lines[line], out);
	out_byte(out, '\n');
	/* The number of the entry block, which LLVM does not print. */
	if (line == function->define_line && !function->entry_has_label)
		out_printf(out, "proton.v.%u:\n", ir_function_entry_number(function));
}

ARRAY_ORDER(compare_moves, uint64_t, ORDER_OF(*a, *b))

int ir_function_write_moved(const struct ir_function *function, const uint32_t *moves,
			    char **text_out, size_t *length_out, struct proton_error *err)
{
	uint64_t *moved = NULL; /* the line that it moves before << 32 | line */
	size_t capacity = 0;
	size_t count = 0;
	size_t next = 0;
	struct out out;

	for (uint32_t i = 0; i < function->line_count; i++)
		if (moves[i] && !ARRAY_ADD(moved, capacity, count, (moves[i] - 1ull) << 32 | i)) {
			free(moved);
			return err_nomem(err);
		}
	if (!count)
		return PROTON_OK;
	/* Lines that move to the same place stay in text order. */
	ARRAY_SORT(moved, count, compare_moves);
	out_init(&out, -1);
	for (uint32_t i = 0; i < function->line_count; i++) {
		for (; next < count && moved[next] >> 32 == i; next++)
			write_line(function, (uint32_t)moved[next], &out);
		if (!moves[i])
			write_line(function, i, &out);
	}
	free(moved);
	return out_finish_text(&out, text_out, length_out, err);
}

void ir_function_fini(struct ir_function *function)
{
	FREE_ALL(function->blocks, function->successors, function->markers);
	*function = (struct ir_function){0};
}

void ir_function_write_label(const struct ir_function *function, struct out *out, uint32_t block)
{
	struct slice label = function->blocks[block].label;

	if (label.length) {
		out_byte(out, '%');
		out_bytes(out, label.at, label.length);
	} else {
		out_printf(out, "%%%u", ir_function_entry_number(function));
	}
}
