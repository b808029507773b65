/* CSV fields: quotes, protection against formulas, and numbers. */
#include "format/csv_write.h"

#include <math.h>

#include "format/number.h"

static bool needs_quotes(const char *text, size_t length)
{
	return memchr(text, '"', length) || memchr(text, ',', length) ||
	       memchr(text, '\n', length) || memchr(text, '\r', length);
}

bool csv_is_formula(const char *text, size_t length)
{
	static const char begins[] = "=+-@\t\r\n'";

	/* Some spreadsheets take U+FF0B, U+FF0D, U+FF1D and U+FF20 for + - = @. */
	if (length >= 3 && memcmp(text, "\xef\xbc", 2) == 0)
		return memchr("\x8b\x8d\x9d\xa0", text[2], 4) != NULL;
	return length > 0 && memchr(begins, text[0], sizeof(begins) - 1) != NULL;
}

static void write_field(struct out *out, bool is_marked, const char *text, size_t length,
			bool is_quoted)
{
	const char *end = text + length;
	const char *quote;

	out_text(out, is_quoted ? "\"" : "");
	out_text(out, !is_marked && csv_is_formula(text, length) ? "'" : "");
	while (is_quoted && length && (quote = memchr(text, '"', (size_t)(end - text))) != NULL) {
		out_bytes(out, text, (size_t)(quote + 1 - text));
		out_byte(out, '"');
		text = quote + 1;
	}
	out_bytes(out, text, (size_t)(end - text));
	out_text(out, is_quoted ? "\"" : "");
}

void csv_marked(struct out *out, const char *text, size_t length)
{
	if (length)
		write_field(out, true, text, length, needs_quotes(text, length));
}

void csv_text(struct out *out, const char *text, size_t length)
{
	if (length)
		write_field(out, false, text, length, needs_quotes(text, length));
}

void csv_quoted(struct out *out, const char *text, size_t length)
{
	write_field(out, false, text, length, true);
}

void csv_number(struct out *out, double value)
{
	char text[NUMBER_TEXT_BYTES];

	if (isfinite(value))
		out_bytes(out, text, number_from_double(value, text));
}
