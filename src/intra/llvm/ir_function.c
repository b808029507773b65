/* Parser for LLVM IR text: finds the kernel, its basic blocks and its markers. */
#include "intra/llvm/ir_function.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "intra/llvm/noinline_callees.h"

#define LINE_MAX_COUNT (8u << 20)
#define RESULT_MAX_LENGTH 32u /* of a marker's result; LLVM prints short numbers */

static bool split_lines(const char *text, size_t length, struct ir_function *function)
{
	const char *end = text + length;
	size_t capacity = 0;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *stop = newline ? newline : end;

		if (function->line_count == LINE_MAX_COUNT ||
		    !array_reserve(&function->lines, &capacity, function->line_count + 1,
				   sizeof(*function->lines)))
			return false;
		function->lines[function->line_count++] =
			(struct slice){text, (size_t)(stop - text)};
		text = stop + (newline != NULL);
	}
	return true;
}

/* ------------------------------------------------------------------ pieces of a line */

bool ir_is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '$' || c == '.' || c == '_';
}

struct slice ir_name_at(const char *at, const char *end)
{
	const char *start = at;

	if (at < end && *at == '"') {
		const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));

		return (struct slice){start, quote ? (size_t)(quote + 1 - start) : 0};
	}
	while (at < end && ir_is_name_char(*at))
		at++;
	return (struct slice){start, (size_t)(at - start)};
}

/* The label that a line defines; empty if none. */
static struct slice label_of(struct slice line)
{
	struct slice name = ir_name_at(line.at, line.at + line.length);

	if (!name.length || name.length >= line.length || name.at[name.length] != ':')
		name.length = 0;
	return name;
}

/*
 * Parses "%12 = tail call i32 asm sideeffect "<text>", ..." with a marker as text. A line that only
 * resembles one stays unchanged: its assembly is a comment.
 */
bool ir_marker_of(struct slice line, struct ir_marker *out)
{
	const char *end = line.at + line.length;
	const char *at = line.at;
	const char *text;
	const char *quote;

	while (at < end && *at == ' ')
		at++;
	if (at == end || *at != '%')
		return false;
	text = slice_find(line, " call i32 asm sideeffect \"// proton.");
	if (!text)
		return false;
	out->result.at = at;
	out->result.length = 1 + ir_name_at(at + 1, end).length;
	if (out->result.length == 1 || out->result.length > RESULT_MAX_LENGTH || at[1] == '"')
		return false;
	text = strchr(text, '"') + 1;
	quote = memchr(text, '"', (size_t)(end - text));
	return quote && marker_parse(text, (size_t)(quote - text), &out->marker);
}

static bool starts_at(const char *at, const char *end, const char *word)
{
	size_t length = strlen(word);

	return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* The "(" of a "define" line, after the function name; NULL. */
static const char *parameters_of(struct slice line)
{
	const char *end = line.at + line.length;
	const char *at = memchr(line.at, '@', line.length);
	struct slice name;

	if (!at)
		return NULL;
	name = ir_name_at(at + 1, end);
	at = name.at + name.length;
	return name.length && at < end && *at == '(' ? at : NULL;
}

/* Name of the last parameter of a "define" line if it is a pointer to global memory. */
static struct slice last_parameter_of(struct slice line)
{
	static const char type[] = "ptr addrspace(1) ";
	const char *end = line.at + line.length;
	const char *start = parameters_of(line);
	struct slice found = {NULL, 0};
	int depth = 0;

	for (const char *at = start; at && at < end; at++) {
		if (*at == '"') {
			at = memchr(at + 1, '"', (size_t)(end - at - 1));
			if (!at)
				return (struct slice){NULL, 0};
		} else if (*at == '(') {
			depth++;
		} else if (*at == ')') {
			if (--depth == 0)
				break;
		} else if (*at == ',' && depth == 1) {
			start = at;
		} else if (*at == '%' && depth == 1) {
			found.at = at;
			found.length = 1 + ir_name_at(at + 1, end).length;
			at += found.length - 1;
		}
	}
	/* `start` is at the "(" or "," before the parameter. */
	if (start && end - start > 2)
		start += start[1] == ' ' ? 2 : 1;
	if (!start || depth != 0 || found.length < 2 || found.length > RESULT_MAX_LENGTH ||
	    found.at[1] == '"' || found.at < start || !starts_at(start, found.at, type))
		return (struct slice){NULL, 0};
	return found;
}

/* ------------------------------------------------------------------ blocks */

static const char terminators[][12] = {"ret ", "br ", "switch ", "unreachable"};

static bool is_terminator(struct slice line)
{
	for (size_t i = 0; i < ARRAY_LENGTH(terminators); i++)
		if (slice_starts(line, terminators[i]))
			return true;
	return false;
}

static bool is_blank(struct slice line)
{
	size_t blanks = 0;

	while (blanks < line.length && (line.at[blanks] == ' ' || line.at[blanks] == '\t'))
		blanks++;
	return blanks == line.length || line.at[blanks] == ';';
}

struct slice ir_next_name(struct slice line, const char **at)
{
	const char *end = line.at + line.length;
	bool is_quoted = false;

	for (; *at < end; (*at)++) {
		struct slice name = {*at, 1};

		if (**at == '"')
			is_quoted = !is_quoted;
		if (is_quoted || **at != '%')
			continue;
		while (name.at + name.length < end && ir_is_name_char(name.at[name.length]))
			name.length++;
		*at = name.at + name.length;
		return name;
	}
	return (struct slice){NULL, 0};
}

/* Debug records ("#dbg_value(...)") are not instructions. */
bool ir_is_instruction(struct slice line)
{
	return !is_blank(line) && !slice_starts(line, "#dbg");
}

static struct ir_block *add_block(struct ir_function *function, size_t *capacity,
				  struct slice label, uint32_t first_line)
{
	if (!array_reserve(&function->blocks, capacity, function->block_count + 1,
			   sizeof(*function->blocks)))
		return NULL;
	function->blocks[function->block_count] = (struct ir_block){
		.label = label,
		.first_line = first_line,
		.end_line = first_line,
		.first_marker = function->marker_count,
		.callee = IR_NAME_NONE,
	};
	return &function->blocks[function->block_count++];
}

static bool add_marker(struct ir_function *function, size_t *capacity, uint32_t line, bool follows)
{
	struct ir_marker marker;

	if (!ir_marker_of(function->lines[line], &marker))
		return true;
	if (!array_reserve(&function->markers, capacity, function->marker_count + 1,
			   sizeof(*function->markers)))
		return false;
	marker.line = line;
	marker.follows = follows;
	function->markers[function->marker_count++] = marker;
	return true;
}

static int out_of_memory(struct proton_error *err)
{
	return err_nomem(err);
}

static int not_understood(uint32_t line, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED, "cannot parse line %u of the kernel's LLVM IR",
		       line + 1);
}

struct body {
	struct ir_function *function;
	size_t block_capacity;
	size_t marker_capacity;
	struct ir_block *block;
	bool ended;                     /* the block has its terminator */
	bool follows_marker;            /* the previous instruction is a marker */
	const struct callee_call *call; /* the next call */
	const struct callee_call *calls_end;
};

static bool begin_block(struct body *body, struct slice label, uint32_t line)
{
	body->block = add_block(body->function, &body->block_capacity, label, line);
	body->ended = false;
	body->follows_marker = false;
	return body->block;
}

/* A call of an instrumented callee ends the block; a block with the same label follows. */
static bool end_at_call(struct body *body, uint32_t line)
{
	struct slice label = body->block->label;

	body->block->callee = body->call->callee;
	body->call++;
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
		return out_of_memory(err);
	if (body->ended)
		return not_understood(line, err);
	if (!add_marker(function, &body->marker_capacity, line, body->follows_marker))
		return out_of_memory(err);
	body->follows_marker = function->marker_count > markers;
	body->block->marker_count += body->follows_marker;
	if (is_terminator(function->lines[line])) {
		*at = end_block(body, line);
		if (*at == function->end_line)
			return not_understood(*at, err);
	}
	body->block->end_line = *at + 1;
	while (body->call < body->calls_end && body->call->line < line)
		body->call++;
	if (body->call < body->calls_end && body->call->line == line && !end_at_call(body, line))
		return out_of_memory(err);
	return PROTON_OK;
}

/* The first call after `line`. */
static const struct callee_call *first_call(const struct callee_call *calls, uint32_t count,
					    uint32_t line)
{
	while (count) {
		uint32_t half = count / 2;

		if (calls[half].line > line) {
			count = half;
		} else {
			calls += half + 1;
			count -= half + 1;
		}
	}
	return calls;
}

/* Finds the blocks and markers between "define" and "}". */
static int read_blocks(struct ir_function *function, const struct callee_call *calls,
		       uint32_t call_count, struct proton_error *err)
{
	struct body body = {
		.function = function,
		.call = first_call(calls, call_count, function->define_line),
		.calls_end = calls ? calls + call_count : NULL,
	};

	for (uint32_t i = function->define_line + 1; i < function->end_line; i++) {
		struct slice line = function->lines[i];
		struct slice label = label_of(line);
		int status = PROTON_OK;

		if (label.length) {
			if (body.block && !body.ended)
				return not_understood(i, err);
			function->entry_has_label |= !body.block;
			if (!begin_block(&body, label, i + 1))
				return out_of_memory(err);
		} else if (ir_is_instruction(line)) {
			status = read_instruction(&body, &i, err);
		}
		if (status != PROTON_OK)
			return status;
	}
	if (!body.block || !body.ended)
		return not_understood(function->end_line, err);
	return PROTON_OK;
}

static bool add_successor(struct ir_function *function, size_t *capacity, struct ir_block *block,
			  uint32_t target)
{
	if (!array_reserve(&function->successors, capacity, function->successor_count + 1,
			   sizeof(*function->successors)))
		return false;
	function->successors[function->successor_count++] = target;
	block->successor_count++;
	return true;
}

static int read_edges(struct ir_function *function, const struct ir_names *labels,
		      struct proton_error *err)
{
	size_t capacity = 0;

	for (uint32_t b = 0; b < function->block_count; b++) {
		struct ir_block *block = &function->blocks[b];
		uint32_t line = block->end_line;

		block->first_successor = function->successor_count;
		if (block->callee != IR_NAME_NONE) {
			if (!add_successor(function, &capacity, block, b + 1))
				return out_of_memory(err);
			continue;
		}
		/* Back to the terminator's first line. */
		while (line > block->first_line && !is_terminator(function->lines[line - 1]))
			line--;
		for (line = line ? line - 1 : 0; line < block->end_line; line++) {
			struct slice text = function->lines[line];
			const char *end = text.at + text.length;
			const char *found;

			while ((found = slice_find(text, "label %")) != NULL) {
				struct slice label = ir_name_at(found + 7, end);
				uint32_t target = ir_names_find(labels, label);

				/* The entry block has no predecessors. */
				if (target == IR_NAME_NONE || target == 0)
					return not_understood(line, err);
				if (!add_successor(function, &capacity, block, target))
					return out_of_memory(err);
				text.at = label.at + label.length;
				text.length = (size_t)(end - text.at);
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
		return out_of_memory(err);
	for (uint32_t b = 0; b < function->block_count; b++) {
		const struct ir_block *block = &function->blocks[b];

		/* The entry may have no label. */
		if (block->label.length && !block->continues &&
		    !ir_names_add(&labels, block->label, b)) {
			ir_names_fini(&labels);
			return not_understood(block->first_line - 1, err);
		}
	}
	status = read_edges(function, &labels, err);
	ir_names_fini(&labels);
	return status;
}

int ir_function_read_body(struct ir_function *function, const struct callee_call *calls,
			  uint32_t call_count, struct proton_error *err)
{
	int status = read_blocks(function, calls, call_count, err);

	return status == PROTON_OK ? link_blocks(function, err) : status;
}

/* ------------------------------------------------------------------ the text */

static bool is_kernel(struct slice line)
{
	return slice_starts(line, "define ") &&
	       (slice_find(line, " ptx_kernel ") || slice_find(line, " amdgpu_kernel "));
}

/* Finds the kernel, and counts the markers in other functions. */
static int find_kernel(struct ir_function *function, struct proton_error *err)
{
	bool is_found = false;
	bool is_in_kernel = false;
	bool has_markers = false;
	struct ir_marker marker;

	for (uint32_t i = 0; i < function->line_count; i++) {
		struct slice line = function->lines[i];

		if (line.length == 1 && *line.at == '}') {
			if (is_in_kernel)
				function->end_line = i;
			is_in_kernel = false;
		} else if (line.length && *line.at == 'd' && is_kernel(line)) {
			if (is_found)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "the module contains more than one kernel");
			is_found = true;
			is_in_kernel = true;
			function->define_line = i;
			function->is_amd = slice_find(line, " amdgpu_kernel ");
		} else if (ir_marker_of(line, &marker)) {
			has_markers = true;
			function->outside_markers += !is_in_kernel;
		}
	}
	if (!has_markers)
		return PROTON_OK;
	if (!is_found || function->end_line <= function->define_line)
		return err_set(err, PROTON_E_UNSUPPORTED, "the module contains no kernel");
	function->last_parameter = last_parameter_of(function->lines[function->define_line]);
	if (!function->last_parameter.length)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "the kernel has no parameter for the profile's buffer");
	if (!memchr(function->lines[function->define_line].at, '{',
		    function->lines[function->define_line].length))
		return not_understood(function->define_line, err);
	return PROTON_OK;
}

/* Reads the instrumented callees, if there are markers outside the kernel, then the kernel. */
static int read_functions(struct ir_function *function, struct proton_error *err)
{
	const struct callees *callees;
	int status = PROTON_OK;

	if (function->outside_markers)
		status = callees_find(function, err);
	if (status != PROTON_OK)
		return status;
	callees = function->callees;
	return ir_function_read_body(function, callees ? callees->calls : NULL,
				     callees ? callees->call_count : 0, err);
}

int ir_function_read(const char *text, size_t length, struct ir_function *function,
		     struct proton_error *err)
{
	int status;

	*function = (struct ir_function){0};
	if (!memmem(text, length, "// proton.", 10))
		return PROTON_OK; /* the common case costs one search */
	if (!split_lines(text, length, function))
		status = out_of_memory(err);
	else
		status = find_kernel(function, err);
	if (status == PROTON_OK && function->last_parameter.length)
		status = read_functions(function, err);
	if (status != PROTON_OK)
		ir_function_fini(function);
	return status;
}

uint32_t ir_function_entry_number(const struct ir_function *function)
{
	struct slice last = function->last_parameter;
	uint32_t number = 0;
	size_t i = 1;

	if (function->is_callee)
		return function->entry_number;
	while (i < last.length && last.at[i] >= '0' && last.at[i] <= '9' && number < 1000000)
		number = number * 10 + (uint32_t)(last.at[i++] - '0');
	return i == last.length ? number + 1 : 0;
}

void ir_function_fini(struct ir_function *function)
{
	if (!function->is_callee)
		free(function->lines);
	callees_free(function->callees);
	free(function->blocks);
	free(function->successors);
	free(function->markers);
	*function = (struct ir_function){0};
}
