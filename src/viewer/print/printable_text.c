/* Printable text: cleaning, measuring and shortening of names. */
#include "viewer/print/printable_text.h"

#include <wchar.h>

#include "base/printable.h"

void text_clean(struct out *out, const char *text, size_t length)
{
	text_write_escaped(out, text, length, printable_is);
}

void text_clean_lines(struct out *out, const char *text, size_t length)
{
	const char *end = text + length;
	const char *line_end;

	for (; length && (line_end = memchr(text, '\n', length)) != NULL;
	     length = (size_t)(end - text)) {
		text_clean(out, text, (size_t)(line_end - text));
		out_byte(out, '\n');
		text = line_end + 1;
	}
	text_clean(out, text, length);
}

static size_t columns_of(uint32_t code)
{
	if (code < 0x80)
		return 1;
	int columns = code == UINT32_MAX ? 1 : wcwidth((wchar_t)code);
	/* -1: the locale does not know the character; most of these take one column. */
	return columns < 0 ? 1 : (size_t)columns;
}

size_t text_columns(const char *text, size_t length)
{
	size_t i = 0;

	while (i < length && (unsigned char)text[i] < 0x80)
		i++;
	size_t columns = i;
	while (i < length) {
		uint32_t code;

		i += utf8_decode(text + i, length - i, &code);
		columns += columns_of(code);
	}
	return columns;
}

/* Length of the longest prefix that fits into `columns`. */
static size_t fitting_head(const char *text, size_t length, size_t columns)
{
	size_t i = 0;

	while (i < length) {
		uint32_t code;
		size_t bytes = utf8_decode(text + i, length - i, &code);
		size_t width = columns_of(code);

		if (width > columns)
			break;
		columns -= width;
		i += bytes;
	}
	return i;
}

void text_shorten(struct out *out, const char *text, size_t length, size_t columns,
		  const char *mark, bool keep_end)
{
	size_t total = length > columns ? text_columns(text, length) : 0;
	size_t mark_columns = text_columns(mark, strlen(mark));
	size_t space = columns > mark_columns ? columns - mark_columns : 0;
	size_t tail = keep_end ? space : space / 2;
	size_t passed = 0, i = 0;

	if (total <= columns) {
		out_bytes(out, text, length);
		return;
	}
	out_bytes(out, text, fitting_head(text, length, space - tail));
	out_text(out, mark);
	/* The tail starts where the rest fits; a wide character may make it one column shorter. */
	while (i < length && passed < total - tail) {
		uint32_t code;

		i += utf8_decode(text + i, length - i, &code);
		passed += columns_of(code);
	}
	out_bytes(out, text + i, length - i);
}

void text_pad(struct out *out, size_t count)
{
	static const char spaces[] =
		"                                                                ";

	while (count > 0) {
		size_t part = count < sizeof(spaces) - 1 ? count : sizeof(spaces) - 1;

		out_bytes(out, spaces, part);
		count -= part;
	}
}
