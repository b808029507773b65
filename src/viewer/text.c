/* Cleaning, measuring and shortening of names. See text.h. */
#include "viewer/text.h"

#include <wchar.h>

#include "format/utf8.h"

size_t text_decode(const char *text, size_t length, uint32_t *code)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t bytes = utf8_sequence(text, length);

	if (bytes <= 1) {
		*code = bytes ? p[0] : UINT32_MAX;
		return 1;
	}
	*code = p[0] & (0xffu >> (bytes + 1));
	for (size_t i = 1; i < bytes; i++)
		*code = *code << 6 | (p[i] & 0x3fu);
	return bytes;
}

static bool is_unfit(uint32_t code)
{
	if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == UINT32_MAX)
		return true;
	/* Marks that turn the direction of the text around could make a name read as another. */
	return (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

void text_clean(struct out *out, const char *text, size_t length)
{
	size_t start = 0; /* of the run that needs no change */
	size_t i = 0;

	if (length == 0)
		return;
	while (i < length) {
		uint32_t code;
		size_t bytes = text_decode(text + i, length - i, &code);

		if (is_unfit(code)) {
			out_bytes(out, text + start, i - start);
			for (size_t k = 0; k < bytes; k++)
				out_printf(out, "\\x%02x", (unsigned char)text[i + k]);
			start = i + bytes;
		}
		i += bytes;
	}
	out_bytes(out, text + start, length - start);
}

static size_t columns_of(uint32_t code)
{
	int columns;

	if (code < 0x80)
		return 1;
	columns = code == UINT32_MAX ? 1 : wcwidth((wchar_t)code);
	/* -1: the locale does not know the character; most that remain take one column. */
	return columns < 0 ? 1 : (size_t)columns;
}

size_t text_columns(const char *text, size_t length)
{
	size_t columns = 0;
	size_t i = 0;

	while (i < length) {
		uint32_t code;

		i += text_decode(text + i, length - i, &code);
		columns += columns_of(code);
	}
	return columns;
}

/* Bytes of the longest beginning that takes at most `columns`. */
static size_t fitting_head(const char *text, size_t length, size_t columns)
{
	size_t i = 0;

	while (i < length) {
		uint32_t code;
		size_t bytes = text_decode(text + i, length - i, &code);
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
	size_t total = text_columns(text, length);
	size_t mark_columns = text_columns(mark, strlen(mark));
	size_t room = columns > mark_columns ? columns - mark_columns : 0;
	size_t tail = keep_end ? room : room / 2;
	size_t passed = 0;
	size_t i = 0;

	if (total <= columns) {
		out_bytes(out, text, length);
		return;
	}
	out_bytes(out, text, fitting_head(text, length, room - tail));
	out_text(out, mark);
	/*
	 * The tail begins where what is left fits; a wide character may make it a column shorter.
	 */
	while (i < length && passed < total - tail) {
		uint32_t code;

		i += text_decode(text + i, length - i, &code);
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
