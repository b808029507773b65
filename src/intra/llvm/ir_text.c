/* Parsing lines of LLVM IR: names, instructions and markers. */
#include "intra/llvm/ir_text.h"

#include <string.h>

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

static bool is_blank(struct slice line)
{
	size_t blanks = 0;

	while (blanks < line.length && (line.at[blanks] == ' ' || line.at[blanks] == '\t'))
		blanks++;
	return blanks == line.length || line.at[blanks] == ';';
}

/* Debug records ("#dbg_value(...)") are not instructions. */
bool ir_is_instruction(struct slice line)
{
	return !is_blank(line) && !slice_starts(line, "#dbg");
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
	if (out->result.length == 1 || out->result.length > IR_RESULT_MAX || at[1] == '"')
		return false;
	text = strchr(text, '"') + 1;
	quote = memchr(text, '"', (size_t)(end - text));
	return quote && marker_parse(text, (size_t)(quote - text), &out->marker);
}

int ir_parse_error(uint32_t line, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED, "cannot parse line %u of the kernel's LLVM IR",
		       line + 1);
}
