/* Parsing lines of LLVM IR: names, instructions and markers. */
#include "intra/llvm/ir_text.h"

#include <string.h>

struct slice ir_name_at(const char *at, const char *end)
{
	struct slice rest = slice_between(at, end);
	const char *quote;

	if (at == end || *at != '"')
		return slice_take_name(&rest);
	quote = memchr(at + 1, '"', rest.length - 1);
	return slice_between(at, quote ? quote + 1 : at);
}

struct slice ir_next_name(struct slice line, const char **at)
{
	bool is_quoted = false;

	for (; *at < slice_end(line); (*at)++) {
		struct slice rest = slice_between(*at + 1, slice_end(line));
		struct slice name = {*at, 1};

		if (**at == '"')
			is_quoted = !is_quoted;
		if (is_quoted || **at != '%')
			continue;
		name.length += slice_take_name(&rest).length;
		*at = rest.at;
		return name;
	}
	return (struct slice){NULL, 0};
}

bool ir_is_number(struct slice name)
{
	uint32_t number;

	return slice_take(&name, "%") && slice_take_number(&name, UINT32_MAX, &number) &&
	       !name.length;
}

/* Debug records ("#dbg_value(...)") are not instructions. */
bool ir_is_instruction(struct slice line)
{
	line = slice_trim(line);
	return line.length && *line.at != ';' && !slice_starts(line, "#dbg");
}

bool ir_is_define(struct slice line)
{
	return slice_take(&line, "define ");
}

bool ir_is_end(struct slice line)
{
	return slice_is(line, "}");
}

void ir_write_without(struct slice text, const char *const *words, size_t count, struct out *out)
{
	while (text.length) {
		size_t i = 0;

		while (i < count && !slice_take(&text, words[i]))
			i++;
		if (i < count)
			continue;
		out_byte(out, *text.at);
		slice_skip(&text, 1);
	}
}

/* Parses assembly text that is a marker; `call_out` is the line before it. */
static bool marker_text_of(struct slice line, struct marker *marker, struct slice *call_out)
{
	const char *quote = slice_find(line, "\"// proton.");
	struct slice text = slice_between(quote ? quote + 1 : slice_end(line), slice_end(line));

	if (!slice_find(text, "\"") || slice_starts(line, ";"))
		return false;
	*call_out = slice_trim(slice_between(line.at, quote));
	text = slice_take_until(&text, '"');
	return slice_find(*call_out, " asm") && marker_parse(text.at, text.length, marker);
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
	call = slice_trim(slice_between(call.at, assembly));
	return out->result.length > 1 && out->result.length <= IR_RESULT_MAX &&
	       out->result.at[1] != '"' && slice_find(call, " call ") && slice_ends(call, " i32");
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
