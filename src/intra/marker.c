/* Parsing and writing markers, with percent-encoding of scope names. */
#include "intra/marker.h"

#include <string.h>

static const char record_word[] = "// proton.record ";
static const char event_word[] = "// proton.event ";

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_-.:@/", c));
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool take(const char **text, size_t *length, const char *word)
{
	size_t size = strlen(word);

	if (*length < size || memcmp(*text, word, size) != 0)
		return false;
	*text += size;
	*length -= size;
	return true;
}

/* `length` without the bytes of an incomplete UTF-8 character at the end. */
static size_t whole_characters(const char *text, size_t length)
{
	size_t start = length;

	while (start && length - start < 4 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start && (unsigned char)text[start - 1] >= 0xc0) {
		unsigned char lead = (unsigned char)text[start - 1];
		size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;

		if (length - (start - 1) < size)
			return start - 1;
	}
	return length;
}

bool marker_parse(const char *text, size_t length, struct marker *out)
{
	bool is_cut = false;

	*out = (struct marker){0};
	if (take(&text, &length, event_word))
		out->is_event = true;
	else if (!take(&text, &length, record_word))
		return false;
	if (take(&text, &length, "end "))
		out->is_end = true;
	else if (!take(&text, &length, "start "))
		return false;
	while (length) {
		char c = *text;

		if (c == '%' && length >= 3 && hex_digit(text[1]) >= 0 && hex_digit(text[2]) >= 0) {
			c = (char)(hex_digit(text[1]) * 16 + hex_digit(text[2]));
			text += 3;
			length -= 3;
		} else if (is_plain(c)) {
			text++;
			length--;
		} else {
			return false;
		}
		if (!c)
			return false;
		if (out->name_length < MARKER_NAME_MAX)
			out->name[out->name_length++] = c;
		else
			is_cut = true;
	}
	if (is_cut) /* not inside a UTF-8 character */
		out->name_length = whole_characters(out->name, out->name_length);
	out->name[out->name_length] = '\0';
	return out->name_length > 0;
}

void marker_write(bool is_event, bool is_end, const char *name, size_t length, struct out *out)
{
	out_text(out, is_event ? event_word : record_word);
	out_text(out, is_end ? "end " : "start ");
	for (size_t i = 0; i < length; i++) {
		if (is_plain(name[i]))
			out_byte(out, name[i]);
		else
			out_printf(out, "%%%02X", (unsigned char)name[i]);
	}
}
