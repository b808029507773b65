/* Parsing lines of LLVM IR: names, instructions and markers. */
#include "intra/llvm/ir_text.h"

#include <string.h>

struct slice ir_name_at(const char *at, const char *end)
{
	const char *start = at;

	if (at < end && *at == '"') {
		const char *quote = memchr(at + 1, '"', (size_t)(end - at - 1));

		return (struct slice){start, quote ? (size_t)(quote + 1 - start) : 0};
	}
	while (at < end && slice_is_name_char(*at))
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
		while (name.at + name.length < end && slice_is_name_char(name.at[name.length]))
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

/* Parses assembly text that is a marker; `call_out` is the line before it. */
static bool marker_text_of(struct slice line, struct marker *marker, struct slice *call_out)
{
	const char *text = slice_find(line, "\"// proton.");
	const char *end = line.at + line.length;
	const char *quote = text ? memchr(text + 1, '"', (size_t)(end - text - 1)) : NULL;

	if (!quote || slice_starts(line, ";"))
		return false;
	*call_out = slice_trim((struct slice){line.at, (size_t)(text - line.at)});
	return slice_find(*call_out, " asm") &&
	       marker_parse(text + 1, (size_t)(quote - text - 1), marker);
}

/*
 * The call is "%12 = call i32 asm". Keywords and attributes may be before "call", before the type
 * and after "asm".
 */
bool ir_marker_of(struct slice line, struct ir_marker *out)
{
	struct slice call;
	const char *assembly;

	if (!marker_text_of(line, &out->marker, &call) || *call.at != '%')
		return false;
	assembly = slice_find_last(call, " asm");
	out->result = (struct slice){call.at, 1 + ir_name_at(call.at + 1, assembly).length};
	call = slice_trim((struct slice){call.at, (size_t)(assembly - call.at)});
	return out->result.length > 1 && out->result.length <= IR_RESULT_MAX &&
	       out->result.at[1] != '"' && slice_find(call, " call ") &&
	       slice_find_last(call, " i32") == call.at + call.length - strlen(" i32");
}

bool ir_is_unknown_marker(struct slice line)
{
	struct ir_marker marker;
	struct slice call;

	return marker_text_of(line, &marker.marker, &call) && !ir_marker_of(line, &marker);
}

int ir_parse_error(uint32_t line, struct proton_error *err)
{
	return err_set(err, PROTON_E_UNSUPPORTED, "cannot parse line %u of the kernel's LLVM IR",
		       line + 1);
}
