/* Untrusted text written to an output: escaped, or repaired to UTF-8. */
#include "base/text_write.h"

#include "base/printable.h"

void text_write_escaped(struct out *out, const char *text, size_t length,
			bool (*is_plain)(uint32_t code))
{
	size_t start = 0; /* of the bytes that need no change */
	size_t at = 0;

	if (length == 0)
		return;
	while (at < length) {
		uint32_t code;
		size_t end = at + utf8_decode(text + at, length - at, &code);

		if (is_plain(code)) {
			at = end;
			continue;
		}
		out_bytes(out, text + start, at - start);
		for (; at < end; at++) {
			char escape[PRINTABLE_ESCAPE_BYTES];

			printable_escape((unsigned char)text[at], escape);
			out_bytes(out, escape, sizeof(escape));
		}
		start = end;
	}
	out_bytes(out, text + start, length - start);
}

void text_write_utf8(struct out *out, const char *text, size_t length)
{
	while (length) {
		size_t valid = utf8_valid_length(text, length);

		out_bytes(out, text, valid);
		if (valid == length)
			break;
		out_bytes(out, UTF8_REPLACEMENT, 3);
		text += valid + 1;
		length -= valid + 1;
	}
}

size_t text_utf8_length(const char *text, size_t length)
{
	size_t result = 0;

	for (size_t at = 0; at < length;) {
		size_t step = utf8_sequence(text + at, length - at);

		result += step ? step : 3;
		at += step ? step : 1;
	}
	return result;
}
