/* The kernel in a text of LLVM IR. See llvm_function.h. */
#include "instrument/llvm_function.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#define LINE_MAX_COUNT (8u << 20)
#define RESULT_MAX_LENGTH 32u /* of a marker's result; LLVM's own are short numbers */
#define PROBE_MAX 1024u       /* steps in the map of labels: only a made-up text needs more */

bool slice_starts(struct slice line, const char *word)
{
	size_t length = strlen(word);

	while (line.length && (*line.at == ' ' || *line.at == '\t')) {
		line.at++;
		line.length--;
	}
	return line.length >= length && memcmp(line.at, word, length) == 0;
}

const char *slice_find(struct slice line, const char *word)
{
	return line.length ? memmem(line.at, line.length, word, strlen(word)) : NULL;
}

static bool slices_equal(struct slice a, struct slice b)
{
	return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static bool split_lines(const char *text, size_t length, struct llvm_function *function)
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

bool llvm_is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '$' || c == '.' || c == '_';
}

/* The name at `at`, plain or quoted, quotes included; empty if there is none. */
static struct slice name_at(const char *at, const char *end)
{
	const char *start = at;

	if (at < end && *at == '"') {
		const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));

		return (struct slice){start, quote ? (size_t)(quote + 1 - start) : 0};
	}
	while (at < end && llvm_is_name_char(*at))
		at++;
	return (struct slice){start, (size_t)(at - start)};
}

/* The label a line defines; empty if it is no label. */
static struct slice label_of(struct slice line)
{
	struct slice name = name_at(line.at, line.at + line.length);

	if (!name.length || name.length >= line.length || name.at[name.length] != ':')
		name.length = 0;
	return name;
}

/*
 * "%12 = tail call i32 asm sideeffect "<text>", ...": the result and the marker. A line that only
 * looks like one is left alone: its asm is a comment.
 */
static bool marker_of(struct slice line, struct llvm_marker *out)
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
	out->result.length = 1 + name_at(at + 1, end).length;
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

/* Where the parameters of a "define" line begin: behind the function's name. NULL. */
static const char *parameters_of(struct slice line)
{
	const char *end = line.at + line.length;
	const char *at = memchr(line.at, '@', line.length);
	struct slice name;

	if (!at)
		return NULL;
	name = name_at(at + 1, end);
	at = name.at + name.length;
	return name.length && at < end && *at == '(' ? at : NULL;
}

/* The name of the last parameter of a "define" line, if that is a pointer to global memory. */
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
			found.length = 1 + name_at(at + 1, end).length;
			at += found.length - 1;
		}
	}
	/* `start` is at the "(" or "," before it. */
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

/* Debug records ("#dbg_value(...)") are no instructions. */
static bool is_instruction(struct slice line)
{
	return !is_blank(line) && !slice_starts(line, "#dbg");
}

static struct llvm_block *add_block(struct llvm_function *function, size_t *capacity,
				    struct slice label, uint32_t first_line)
{
	if (!array_reserve(&function->blocks, capacity, function->block_count + 1,
			   sizeof(*function->blocks)))
		return NULL;
	function->blocks[function->block_count] = (struct llvm_block){
		.label = label,
		.first_line = first_line,
		.end_line = first_line,
		.first_marker = function->marker_count,
	};
	return &function->blocks[function->block_count++];
}

static bool add_marker(struct llvm_function *function, size_t *capacity, uint32_t line,
		       bool follows)
{
	struct llvm_marker marker;

	if (!marker_of(function->lines[line], &marker))
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
	return err_set(err, PROTON_E_NOMEM, "out of memory");
}

static int not_understood(uint32_t line, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED,
		       "line %u of the kernel's LLVM IR is not understood", line + 1);
}

/* Finds the blocks and markers between "define" and "}". */
static int read_blocks(struct llvm_function *function, struct proton_error *err)
{
	size_t block_capacity = 0;
	size_t marker_capacity = 0;
	struct llvm_block *block = NULL;
	bool ended = true;                 /* the block has its terminator */
	uint32_t last_marker = UINT32_MAX; /* line of the instruction before, if a marker */

	for (uint32_t i = function->define_line + 1; i < function->end_line; i++) {
		struct slice line = function->lines[i];
		struct slice label = label_of(line);
		uint32_t markers = function->marker_count;

		if (label.length) {
			if (!ended)
				return not_understood(i, err);
			function->entry_has_label |= function->block_count == 0;
			block = add_block(function, &block_capacity, label, i + 1);
			if (!block)
				return out_of_memory(err);
			ended = false;
			last_marker = UINT32_MAX;
			continue;
		}
		if (!is_instruction(line))
			continue;
		if (!block && function->block_count == 0) {
			block = add_block(function, &block_capacity, (struct slice){NULL, 0}, i);
			if (!block)
				return out_of_memory(err);
			ended = false;
		}
		if (!block || ended)
			return not_understood(i, err);
		if (!add_marker(function, &marker_capacity, i, last_marker != UINT32_MAX))
			return out_of_memory(err);
		if (function->marker_count > markers) {
			block->marker_count++;
			last_marker = i;
		} else {
			last_marker = UINT32_MAX;
		}
		if (is_terminator(line)) {
			block->is_return = slice_starts(line, "ret ");
			/* A switch goes on to the line with its "]". */
			while (slice_starts(line, "switch ") &&
			       !slice_find(function->lines[i], "]"))
				if (++i == function->end_line)
					return not_understood(i, err);
			ended = true;
		}
		block->end_line = i + 1;
	}
	if (!function->block_count || !ended)
		return not_understood(function->end_line, err);
	return PROTON_OK;
}

/* The number of the block labelled `label`, by a map from labels; UINT32_MAX. */
struct label_slot {
	struct slice label;
	uint32_t block;
};

/* FNV-1a */
static uint32_t hash_label(struct slice label)
{
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < label.length; i++)
		hash = (hash ^ (unsigned char)label.at[i]) * 16777619u;
	return hash;
}

static uint32_t find_block(const struct label_slot *slots, uint32_t slot_count, struct slice label)
{
	uint32_t at = hash_label(label) & (slot_count - 1);

	for (uint32_t i = 0; i < PROBE_MAX; i++, at = (at + 1) & (slot_count - 1)) {
		if (!slots[at].label.at)
			return UINT32_MAX;
		if (slices_equal(slots[at].label, label))
			return slots[at].block;
	}
	return UINT32_MAX;
}

/* False when the label is there already, or is not to be found again. */
static bool add_label(struct label_slot *slots, uint32_t slot_count, struct slice label,
		      uint32_t block)
{
	uint32_t at = hash_label(label) & (slot_count - 1);

	for (uint32_t i = 0; i < PROBE_MAX; i++, at = (at + 1) & (slot_count - 1)) {
		if (!slots[at].label.at) {
			slots[at] = (struct label_slot){label, block};
			return true;
		}
		if (slices_equal(slots[at].label, label))
			return false;
	}
	return false;
}

static int read_edges(struct llvm_function *function, const struct label_slot *slots,
		      uint32_t slot_count, struct proton_error *err)
{
	size_t capacity = 0;

	for (uint32_t b = 0; b < function->block_count; b++) {
		struct llvm_block *block = &function->blocks[b];
		uint32_t line = block->end_line;

		block->first_successor = function->successor_count;
		/* Back to the terminator's first line. */
		while (line > block->first_line && !is_terminator(function->lines[line - 1]))
			line--;
		for (line = line ? line - 1 : 0; line < block->end_line; line++) {
			struct slice text = function->lines[line];
			const char *end = text.at + text.length;
			const char *found;

			while ((found = slice_find(text, "label %")) != NULL) {
				struct slice label = name_at(found + 7, end);
				uint32_t target = find_block(slots, slot_count, label);

				/* Nothing leads to the entry. */
				if (target == UINT32_MAX || target == 0)
					return not_understood(line, err);
				if (!array_reserve(&function->successors, &capacity,
						   function->successor_count + 1,
						   sizeof(*function->successors)))
					return out_of_memory(err);
				function->successors[function->successor_count++] = target;
				block->successor_count++;
				text.at = label.at + label.length;
				text.length = (size_t)(end - text.at);
			}
		}
	}
	return PROTON_OK;
}

static int link_blocks(struct llvm_function *function, struct proton_error *err)
{
	uint32_t slot_count = 16;
	struct label_slot *slots;
	int status;

	while (slot_count < function->block_count * 2)
		slot_count *= 2;
	slots = calloc(slot_count, sizeof(*slots));
	if (!slots)
		return out_of_memory(err);
	for (uint32_t b = 0; b < function->block_count; b++) {
		struct slice label = function->blocks[b].label;

		/* The entry may have none. */
		if (label.length && !add_label(slots, slot_count, label, b)) {
			free(slots);
			return not_understood(function->blocks[b].first_line - 1, err);
		}
	}
	status = read_edges(function, slots, slot_count, err);
	free(slots);
	return status;
}

/* ------------------------------------------------------------------ the text */

static bool is_kernel(struct slice line)
{
	return slice_starts(line, "define ") &&
	       (slice_find(line, " ptx_kernel ") || slice_find(line, " amdgpu_kernel "));
}

/* Finds the kernel, and counts the markers of other functions. */
static int find_kernel(struct llvm_function *function, struct proton_error *err)
{
	bool is_found = false;
	bool is_in_kernel = false;
	bool has_markers = false;
	struct llvm_marker marker;

	for (uint32_t i = 0; i < function->line_count; i++) {
		struct slice line = function->lines[i];

		if (line.length == 1 && *line.at == '}') {
			if (is_in_kernel)
				function->end_line = i;
			is_in_kernel = false;
		} else if (line.length && *line.at == 'd' && is_kernel(line)) {
			if (is_found)
				return err_set(err, PROTON_E_UNSUPPORTED,
					       "two kernels in one module");
			is_found = true;
			is_in_kernel = true;
			function->define_line = i;
			function->is_amd = slice_find(line, " amdgpu_kernel ");
		} else if (marker_of(line, &marker)) {
			has_markers = true;
			function->outside_markers += !is_in_kernel;
		}
	}
	if (!has_markers)
		return PROTON_OK;
	if (!is_found || function->end_line <= function->define_line)
		return err_set(err, PROTON_E_UNSUPPORTED, "no kernel in the module");
	function->last_parameter = last_parameter_of(function->lines[function->define_line]);
	if (!function->last_parameter.length)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "the kernel has no parameter for the profile's buffer");
	if (!memchr(function->lines[function->define_line].at, '{',
		    function->lines[function->define_line].length))
		return not_understood(function->define_line, err);
	return read_blocks(function, err);
}

int llvm_function_read(const char *text, size_t length, struct llvm_function *function,
		       struct proton_error *err)
{
	int status;

	*function = (struct llvm_function){0};
	if (!memmem(text, length, "// proton.", 10))
		return PROTON_OK; /* the common case costs one search */
	if (!split_lines(text, length, function))
		status = out_of_memory(err);
	else
		status = find_kernel(function, err);
	if (status == PROTON_OK && function->block_count)
		status = link_blocks(function, err);
	if (status != PROTON_OK)
		llvm_function_fini(function);
	return status;
}

uint32_t llvm_function_entry_number(const struct llvm_function *function)
{
	struct slice last = function->last_parameter;
	uint32_t number = 0;
	size_t i = 1;

	while (i < last.length && last.at[i] >= '0' && last.at[i] <= '9' && number < 1000000)
		number = number * 10 + (uint32_t)(last.at[i++] - '0');
	return i == last.length ? number + 1 : 0;
}

void llvm_function_fini(struct llvm_function *function)
{
	free(function->lines);
	free(function->blocks);
	free(function->successors);
	free(function->markers);
	*function = (struct llvm_function){0};
}
