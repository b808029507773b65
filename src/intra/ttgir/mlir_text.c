/* Parsing lines of MLIR text, and writing markers as MLIR. */
#include "intra/ttgir/mlir_text.h"

#include <stdio.h>

#include "intra/marker.h"

bool mlir_take_line(struct slice *rest, struct slice *line)
{
	const char *newline;

	if (!rest->length)
		return false;
	newline = memchr(rest->at, '\n', rest->length);
	*line = (struct slice){rest->at, newline ? (size_t)(newline - rest->at) : rest->length};
	rest->at += line->length + (newline != NULL);
	rest->length -= line->length + (newline != NULL);
	return true;
}

bool mlir_opens_region(struct slice trimmed)
{
	return trimmed.length && trimmed.at[trimmed.length - 1] == '{';
}

bool mlir_closes_region(struct slice trimmed)
{
	return trimmed.length && trimmed.at[0] == '}';
}

bool mlir_begins_partition(struct slice trimmed)
{
	return slice_take(&trimmed, "default") || slice_take(&trimmed, "partition");
}

bool mlir_is_not_code(struct slice trimmed)
{
	return !trimmed.length || trimmed.at[0] == '#' || trimmed.at[0] == '/';
}

struct slice mlir_indent(struct slice line)
{
	return (struct slice){line.at, (size_t)(slice_trim(line).at - line.at)};
}

bool mlir_is_amd(struct slice text)
{
	return slice_find(text, "ttg.target = \"hip:") != NULL;
}

/* ------------------------------------------------------------------ lines */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || c == '$' || c == '-';
}

static struct slice take_word(struct slice *rest)
{
	struct slice word = {rest->at, 0};

	while (word.length < rest->length && is_word(rest->at[word.length]))
		word.length++;
	rest->at += word.length;
	rest->length -= word.length;
	return word;
}

/* "%x = ", "%x:3 = " or "%x, %y = "; returns the first SSA name. */
static struct slice take_results(struct slice *rest)
{
	const char *equals = rest->length && rest->at[0] == '%' ? slice_find(*rest, " = ") : NULL;
	struct slice name = {rest->at, 0};

	if (!equals)
		return name;
	name.length = 1;
	while (is_word(name.at[name.length]))
		name.length++;
	rest->length -= (size_t)(equals + 3 - rest->at);
	rest->at = equals + 3;
	return name;
}

static struct slice location_of(struct slice line)
{
	const char *found = slice_find_last(line, " loc(");

	if (!found || line.at[line.length - 1] != ')')
		return (struct slice){line.at, 0};
	return (struct slice){found + 1, line.length - (size_t)(found + 1 - line.at)};
}

void mlir_line_read(struct slice line, struct mlir_line *out)
{
	struct slice rest = slice_trim(line);

	*out = (struct mlir_line){.indent = {line.at, (size_t)(rest.at - line.at)}};
	out->location = location_of(rest);
	out->result = take_results(&rest);
	out->op = take_word(&rest);
	if (out->op.length && (out->op.at[0] == '.' || !memchr(out->op.at, '.', out->op.length)))
		out->op.length = 0;
	out->rest = rest;
}

/* ------------------------------------------------------------------ markers */

bool mlir_unused_prefix(struct slice text, char prefix[MLIR_PREFIX_MAX])
{
	for (uint32_t i = 0; i < 1000; i++) {
		if (i == 0)
			snprintf(prefix, MLIR_PREFIX_MAX, "%%proton_");
		else
			snprintf(prefix, MLIR_PREFIX_MAX, "%%proton_v%u_", i);
		if (!slice_find(text, prefix))
			return true;
	}
	return false;
}

static void write_quoted(struct slice name, struct out *out)
{
	out_byte(out, '"');
	for (size_t i = 0; i < name.length; i++) {
		unsigned char c = (unsigned char)name.at[i];

		if (c == '"' || c == '\\' || c < ' ' || c >= 127)
			out_printf(out, "\\%02X", c);
		else
			out_byte(out, (char)c);
	}
	out_byte(out, '"');
}

void mlir_marker_write(const struct mlir_marker *marker, struct out *out)
{
	out_bytes(out, marker->indent.at, marker->indent.length);
	if (!marker->prefix) {
		out_text(out, marker->is_end ? "proton.record end " : "proton.record start ");
		write_quoted(marker->name, out);
	} else {
		out_printf(out, "%s%u = tt.elementwise_inline_asm \"", marker->prefix,
			   marker->number);
		marker_write(marker->is_event, marker->is_end, marker->name.at, marker->name.length,
			     out);
		out_printf(out,
			   "\" {constraints = \"=%c\", packed_element = 1 : i32, pure = false} "
			   "-> i32",
			   marker->is_amd ? 'v' : 'r');
	}
	if (marker->location.length) {
		out_byte(out, ' ');
		out_bytes(out, marker->location.at, marker->location.length);
	}
	out_byte(out, '\n');
}
