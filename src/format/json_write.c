/* JSON writer: separators, indentation and escapes. */
#include "format/json_write.h"

#include <math.h>

#include "base/printable.h"
#include "base/utf8.h"
#include "format/number.h"

#define SPACES_10 "                                        " /* 10 levels */

_Static_assert(sizeof(SPACES_10) - 1 == 40, "4 spaces a level");
_Static_assert(JSON_INDENT_LEVELS_MAX == 40, "as many as line_break holds");

static const char line_break[] = ",\n" SPACES_10 SPACES_10 SPACES_10 SPACES_10;

void json_writer_init(struct json_writer *writer, struct out *out, bool is_pretty)
{
	*writer = (struct json_writer){.out = out, .is_pretty = is_pretty};
}

static inline size_t indent_bytes(const struct json_writer *writer)
{
	return 4 * (size_t)(writer->depth < JSON_INDENT_LEVELS_MAX ? writer->depth
								   : JSON_INDENT_LEVELS_MAX);
}

/* Writes the separator between the last element and this one. */
static inline void separate(struct json_writer *writer)
{
	bool has_element = writer->has_element;

	writer->has_element = true;
	if (writer->is_after_key) {
		writer->is_after_key = false;
	} else if (!writer->is_pretty) {
		if (has_element)
			out_byte(writer->out, ',');
	} else if (has_element) {
		out_bytes(writer->out, line_break, 2 + indent_bytes(writer));
	} else if (writer->depth) {
		out_bytes(writer->out, line_break + 1, 1 + indent_bytes(writer));
	}
}

static inline void begin_container(struct json_writer *writer, char bracket)
{
	separate(writer);
	out_byte(writer->out, bracket);
	writer->depth++;
	writer->has_element = false;
}

static inline void end_container(struct json_writer *writer, char bracket)
{
	writer->depth--;
	if (writer->is_pretty && writer->has_element)
		out_bytes(writer->out, line_break + 1, 1 + indent_bytes(writer));
	out_byte(writer->out, bracket);
	writer->has_element = true;
}

void json_line_break(struct json_writer *writer)
{
	if (writer->has_element && !writer->is_after_key)
		out_byte(writer->out, ',');
	out_byte(writer->out, '\n');
	writer->has_element = false;
}

void json_begin_object(struct json_writer *writer)
{
	begin_container(writer, '{');
}

void json_end_object(struct json_writer *writer)
{
	end_container(writer, '}');
}

void json_begin_array(struct json_writer *writer)
{
	begin_container(writer, '[');
}

void json_end_array(struct json_writer *writer)
{
	end_container(writer, ']');
}

static void escape_byte(struct out *out, unsigned char byte)
{
	static const char names[] = "\"\\\b\f\n\r\t";
	static const char escapes[] = "\"\\bfnrt";
	static const char hex[] = "0123456789abcdef";
	const char *name = byte ? strchr(names, byte) : NULL;
	char text[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};

	if (name) {
		text[1] = escapes[name - names];
		out_bytes(out, text, 2);
	} else {
		out_bytes(out, text, 6);
	}
}

/* DEL, C1, line separators and bidirectional characters: escaped, which reads as the same text. */
static bool is_escaped(const char *text, size_t step, uint32_t *code)
{
	utf8_decode(text, step, code);
	return step == 1 ? *text == 0x7f : !printable_is(*code);
}

void json_quote(struct out *out, const char *text, size_t length)
{
	size_t at = 0;

	if (out->errnum)
		return;
	out_byte(out, '"');
	while (at < length) {
		size_t plain = at;
		size_t step = 1;
		uint32_t code;

		while (at < length && (unsigned char)text[at] >= 0x20 && text[at] != '"' &&
		       text[at] != '\\') {
			if ((unsigned char)text[at] < 0x7f) {
				at++;
				continue;
			}
			step = utf8_sequence(text + at, length - at);
			if (!step || is_escaped(text + at, step, &code))
				break;
			at += step;
		}
		out_bytes(out, text + plain, at - plain);
		if (at == length)
			break;
		step = utf8_sequence(text + at, length - at);
		if (!step)
			out_bytes(out, UTF8_REPLACEMENT, 3);
		else if (is_escaped(text + at, step, &code))
			out_printf(out, "\\u%04x", code);
		else
			escape_byte(out, (unsigned char)text[at]);
		at += step ? step : 1;
	}
	out_byte(out, '"');
}

static inline void after_key(struct json_writer *writer)
{
	out_bytes(writer->out, ": ", writer->is_pretty ? 2 : 1);
	writer->is_after_key = true;
}

void json_key(struct json_writer *writer, const char *text)
{
	separate(writer);
	json_quote(writer->out, text, strlen(text));
	after_key(writer);
}

void json_key_quoted(struct json_writer *writer, const char *quoted, size_t length)
{
	separate(writer);
	out_bytes(writer->out, quoted, length);
	after_key(writer);
}

void json_string(struct json_writer *writer, const char *text, size_t length)
{
	separate(writer);
	json_quote(writer->out, text, length);
}

void json_string_quoted(struct json_writer *writer, const char *quoted, size_t length)
{
	separate(writer);
	out_bytes(writer->out, quoted, length);
}

void json_text(struct json_writer *writer, const char *text)
{
	json_string(writer, text, strlen(text));
}

void json_int64(struct json_writer *writer, int64_t value)
{
	separate(writer);
	out_i64(writer->out, value);
}

void json_uint64(struct json_writer *writer, uint64_t value)
{
	separate(writer);
	out_u64(writer->out, value);
}

void json_double(struct json_writer *writer, double value)
{
	char text[NUMBER_TEXT_BYTES];

	separate(writer);
	if (isfinite(value))
		out_bytes(writer->out, text, number_from_double(value, text));
	else
		out_text(writer->out, "null");
}

void json_bool(struct json_writer *writer, bool value)
{
	separate(writer);
	out_text(writer->out, value ? "true" : "false");
}

void json_key_text(struct json_writer *writer, const char *key, const char *text)
{
	json_key_string(writer, key, text, strlen(text));
}

void json_key_string(struct json_writer *writer, const char *key, const char *text, size_t length)
{
	json_key(writer, key);
	json_string(writer, text, length);
}

void json_key_uint64(struct json_writer *writer, const char *key, uint64_t value)
{
	json_key(writer, key);
	json_uint64(writer, value);
}

void json_key_double(struct json_writer *writer, const char *key, double value)
{
	json_key(writer, key);
	json_double(writer, value);
}

void json_key_bool(struct json_writer *writer, const char *key, bool value)
{
	json_key(writer, key);
	json_bool(writer, value);
}

void json_key_array(struct json_writer *writer, const char *key)
{
	json_key(writer, key);
	json_begin_array(writer);
}

void json_key_object(struct json_writer *writer, const char *key)
{
	json_key(writer, key);
	json_begin_object(writer);
}
