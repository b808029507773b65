/*
 * Parser for LLVM IR functions: basic blocks, markers and control flow of the body, and signatures
 * in "define" and "call" lines.
 */
#include "intra/llvm/ir_function.h"

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

static bool add_marker(struct ir_function *function, uint32_t line, bool follows)
{
	struct ir_marker marker;

	if (!ir_marker_of(function->lines[line], &marker))
		return true;
	marker.line = line;
	marker.follows = follows;
	return ARRAY_ADD(function->markers, function->marker_count, marker);
}

struct body {
	struct ir_function *function;
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

	if (!ARRAY_ADD(function->blocks, function->block_count, block))
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
	if (!add_marker(function, line, body->follows_marker))
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

static bool add_successor(struct ir_function *function, struct ir_block *block, uint32_t target)
{
	block->successor_count++;
	return ARRAY_ADD(function->successors, function->successor_count, target);
}

static int read_edges(struct ir_function *function, const struct ir_names *labels,
		      struct proton_error *err)
{
	for (uint32_t b = 0; b < function->block_count; b++) {
		struct ir_block *block = &function->blocks[b];
		uint32_t line = block->end_line;

		block->first_successor = function->successor_count;
		if (block->call || block->is_return) {
			uint32_t next = block->call ? b + 1 : function->block_count;

			if (!add_successor(function, block, next))
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
				if (!add_successor(function, block, target))
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
	int status = read_edges(function, &labels, err);
	ir_names_fini(&labels);
	return status;
}

int ir_function_read_body(struct ir_function *function, struct proton_error *err)
{
	int status = read_blocks(function, err);

	return status == PROTON_OK ? link_blocks(function, err) : status;
}

/* ------------------------------------------------------------------ the function */

/* The number that LLVM gives to an entry block without a label. */
static uint32_t entry_number(const struct ir_function *function)
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
		out_printf(out, "proton.v.%u:\n", entry_number(function));
}

ARRAY_ORDER(compare_moves, uint64_t, ORDER_OF(*a, *b))

int ir_function_write_moved(const struct ir_function *function, const uint32_t *moves,
			    char **text_out, size_t *length_out, struct proton_error *err)
{
	AUTO_FREE uint64_t *moved = NULL; /* the line that it moves before << 32 | line */
	size_t count = 0, next = 0;
	struct out out;

	for (uint32_t i = 0; i < function->line_count; i++)
		if (moves[i] && !ARRAY_ADD(moved, count, (moves[i] - 1ull) << 32 | i))
			return err_nomem(err);
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
		out_printf(out, "%%%u", entry_number(function));
	}
}

/* ------------------------------------------------------------------ signatures */

/* Words before the return type. */
static const char kept[] = "define internal private dso_local tail notail call fastcc ccc coldcc";
/* Attributes of the return value, and fast-math flags of a call. */
static const char dropped[] = "noundef zeroext signext noext inreg nonnull noalias nnan ninf nsz "
			      "arcp afn contract reassoc fast";
/* Attributes with parentheses. */
static const char dropped_calls[] = "range nofpclass dereferenceable dereferenceable_or_null";

/* The position after the parentheses or the quoted text at `at`; NULL. */
static const char *after_parentheses(const char *at, const char *end)
{
	struct slice rest = slice_between(at + 1, end);

	if (*at == '"')
		return slice_take_past(&rest, "\"") ? rest.at : NULL;
	slice_skip(&rest, slice_before(rest, ")").length);
	return slice_take(&rest, ")") ? rest.at : NULL;
}

/*
 * The word at `at` if it may precede a return type; else empty. *is_kept: keep it in the new line.
 */
static struct slice next_word(const char *at, const char *end, bool *is_kept)
{
	static const struct slice none = {NULL, 0};
	struct slice rest = slice_between(at, end);
	struct slice word = slice_take_name(&rest);
	const char *after = rest.at;

	*is_kept = slice_is_any(word, kept);
	if (after == end)
		return none;
	if (*after == ' ')
		return *is_kept || slice_is_any(word, dropped) ? word : none;
	if (*after != '(' || !slice_is_any(word, dropped_calls))
		return none;
	after = after_parentheses(after, end);
	if (!after || after == end || *after != ' ')
		return none;
	return (struct slice){at, (size_t)(after - at)};
}

/*
 * The position of the return type. Words before it that are kept are written to `out`, if not NULL.
 */
static const char *skip_words(struct slice before, struct out *out)
{
	const char *end = before.at + before.length;
	const char *at = before.at;
	bool is_kept;
	struct slice word;

	while ((word = next_word(at, end, &is_kept)).length) {
		if (is_kept && out) {
			out_bytes(out, word.at, word.length);
			out_byte(out, ' ');
		}
		at = word.at + word.length + 1;
	}
	return at;
}

static bool has_number_between(struct slice type, const char *prefix, const char *suffix)
{
	uint32_t unused;

	return slice_take(&type, prefix) && slice_take_number(&type, UINT32_MAX, &unused) &&
	       slice_is(type, suffix);
}

static bool is_aggregate(struct slice type)
{
	int depth = 0;

	for (size_t i = 0; i < type.length; i++) {
		char c = type.at[i];

		if (c == '"' || c == '@' || c == '%')
			return false;
		depth += (c == '{' || c == '[' || c == '<') - (c == '}' || c == ']' || c == '>');
		if (depth == 0)
			return i && i + 1 == type.length;
	}
	return false;
}

static bool is_type(struct slice type)
{
	return slice_is_any(type, "void half bfloat float double ptr") ||
	       has_number_between(type, "i", "") ||
	       has_number_between(type, "ptr addrspace(", ")") || is_aggregate(type);
}

/* A call may be followed by attributes, which are dropped, and metadata, not by operand bundles. */
static bool is_after_call(const char *at, const char *end)
{
	while (at && end - at > 1 && at[0] == ' ' && at[1] != '[')
		for (at++; at && at < end && *at != ' ' && *at != ',';)
			at = *at == '"' || *at == '(' ? after_parentheses(at, end) : at + 1;
	return at && (at == end || (end - at > 2 && memcmp(at, ", !", 3) == 0));
}

bool ir_signature_read(struct slice line, const char *at, struct ir_signature *out)
{
	const char *end = line.at + line.length;
	struct slice name = ir_name_at(at + 1, end);
	const char *after = name.at + name.length;
	bool is_call = line.length && *line.at == ' ';

	*out = (struct ir_signature){.name = {at, name.length + 1}};
	if (!name.length || after == end || *after != '(')
		return false;
	const char *close = after_parentheses(after, end);
	if (!close)
		return false;
	out->arguments = slice_between(after + 1, close - 1);
	out->after = slice_between(close, end);
	line = slice_trim(line);
	if (*line.at == '%') {
		const char *equals = slice_find(line, " = ");

		if (!equals || equals > at)
			return false;
		out->result = slice_between(line.at, equals);
		line.at = equals + 3;
	}
	out->before = slice_between(line.at, at);
	const char *type = skip_words(out->before, NULL);
	if (type >= at || at[-1] != ' ')
		return false;
	out->type = slice_between(type, at - 1);
	out->before.length = (size_t)(type - line.at);
	return is_type(out->type) && !slice_find(out->arguments, "...") &&
	       (is_call ? slice_find(out->before, "call ") && is_after_call(close, end)
			: slice_find(out->before, "define ") && slice_find(out->after, "{"));
}

void ir_signature_before(const struct ir_signature *signature, struct out *out)
{
	skip_words(signature->before, out);
}

void ir_signature_arguments(const struct ir_signature *signature, struct out *out)
{
	static const char *const gone[] = {"returned "}; /* it is no longer the return value */

	ir_write_without(signature->arguments, gone, ARRAY_LENGTH(gone), out);
}
