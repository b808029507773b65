/* Lines of MLIR. See mlir_text.h. */
#include "intra/ttgir/mlir_text.h"

#include <stdio.h>

#include "intra/marker.h"

bool span_is(struct span span, const char *text)
{
	return strlen(text) == span.length && memcmp(span.at, text, span.length) == 0;
}

bool span_equal(struct span a, struct span b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

struct span span_trim(struct span span)
{
	while (span.length && is_blank(span.at[0])) {
		span.at++;
		span.length--;
	}
	while (span.length && is_blank(span.at[span.length - 1]))
		span.length--;
	return span;
}

bool span_take(struct span *span, const char *text)
{
	size_t length = strlen(text);

	if (span->length < length || memcmp(span->at, text, length) != 0)
		return false;
	span->at += length;
	span->length -= length;
	return true;
}

const char *span_find(struct span span, const char *text)
{
	return span.length ? memmem(span.at, span.length, text, strlen(text)) : NULL;
}

const char *span_find_last(struct span span, const char *text)
{
	size_t length = strlen(text);

	for (size_t i = span.length; i >= length && i > 0; i--)
		if (memcmp(span.at + i - length, text, length) == 0)
			return span.at + i - length;
	return NULL;
}

bool text_take_line(struct span *rest, struct span *line)
{
	const char *newline;

	if (!rest->length)
		return false;
	newline = memchr(rest->at, '\n', rest->length);
	*line = (struct span){rest->at, newline ? (size_t)(newline - rest->at) : rest->length};
	rest->at += line->length + (newline != NULL);
	rest->length -= line->length + (newline != NULL);
	return true;
}

bool text_opens_region(struct span trimmed)
{
	return trimmed.length && trimmed.at[trimmed.length - 1] == '{';
}

bool text_closes_region(struct span trimmed)
{
	return trimmed.length && trimmed.at[0] == '}';
}

bool text_begins_partition(struct span trimmed)
{
	return span_take(&trimmed, "default") || span_take(&trimmed, "partition");
}

bool text_is_no_code(struct span trimmed)
{
	return !trimmed.length || trimmed.at[0] == '#' || trimmed.at[0] == '/';
}

struct span text_indent(struct span line)
{
	return (struct span){line.at, (size_t)(span_trim(line).at - line.at)};
}

bool text_is_amd(struct span text)
{
	return span_find(text, "ttg.target = \"hip:") != NULL;
}

/* ------------------------------------------------------------------ lines */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.' || c == '$' || c == '-';
}

static struct span take_word(struct span *rest)
{
	struct span word = {rest->at, 0};

	while (word.length < rest->length && is_word(rest->at[word.length]))
		word.length++;
	rest->at += word.length;
	rest->length -= word.length;
	return word;
}

/* "%x = ", "%x:3 = " or "%x, %y = "; the first of the registers. */
static struct span take_results(struct span *rest)
{
	const char *equals = rest->length && rest->at[0] == '%' ? span_find(*rest, " = ") : NULL;
	struct span name = {rest->at, 0};

	if (!equals)
		return name;
	name.length = 1;
	while (is_word(name.at[name.length]))
		name.length++;
	rest->length -= (size_t)(equals + 3 - rest->at);
	rest->at = equals + 3;
	return name;
}

static struct span location_of(struct span line)
{
	const char *found = span_find_last(line, " loc(");

	if (!found || line.at[line.length - 1] != ')')
		return (struct span){line.at, 0};
	return (struct span){found + 1, line.length - (size_t)(found + 1 - line.at)};
}

void ttgir_line_read(struct span line, struct ttgir_line *out)
{
	struct span rest = span_trim(line);

	*out = (struct ttgir_line){.indent = {line.at, (size_t)(rest.at - line.at)}};
	out->location = location_of(rest);
	out->result = take_results(&rest);
	out->op = take_word(&rest);
	if (out->op.length && (out->op.at[0] == '.' || !memchr(out->op.at, '.', out->op.length)))
		out->op.length = 0;
	out->rest = rest;
}

/* ------------------------------------------------------------------ markers */

bool ttgir_prefix(struct span text, char prefix[TTGIR_PREFIX_MAX])
{
	for (uint32_t i = 0; i < 1000; i++) {
		if (i == 0)
			snprintf(prefix, TTGIR_PREFIX_MAX, "%%proton_");
		else
			snprintf(prefix, TTGIR_PREFIX_MAX, "%%proton_v%u_", i);
		if (!span_find(text, prefix))
			return true;
	}
	return false;
}

static void write_quoted(struct span name, struct out *out)
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

void ttgir_marker_write(const struct ttgir_marker *marker, struct out *out)
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
