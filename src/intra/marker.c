/* Parsing and writing markers, with percent-encoding of scope names. */
#include "intra/marker.h"

#include "base/slice.h"
#include "base/utf8.h"

static const char record_word[] = "// proton.record ";
static const char event_word[] = "// proton.event ";

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_-.:@/", c));
}

/* `length` without the bytes of an incomplete UTF-8 character at the end. */
static size_t whole_characters(const char *text, size_t length)
{
	size_t start = length;

	while (start && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (!start || (unsigned char)text[start - 1] < 0xc0)
		return length;
	return utf8_sequence(text + start - 1, length - start + 1) ? length : start - 1;
}

bool marker_parse(const char *text, size_t length, struct marker *out)
{
	struct slice rest = {text, length};
	bool is_cut = false;

	*out = (struct marker){0};
	if (slice_take(&rest, event_word))
		out->is_event = true;
	else if (!slice_take(&rest, record_word))
		return false;
	if (slice_take(&rest, "end "))
		out->is_end = true;
	else if (!slice_take(&rest, "start "))
		return false;
	while (rest.length) {
		char c = *rest.at;
		int byte = c == '%' ? slice_hex_byte(rest, 1) : is_plain(c) ? c : 0;

		if (byte <= 0)
			return false;
		slice_skip(&rest, c == '%' ? 3 : 1);
		if (out->name_length < MARKER_NAME_MAX)
			out->name[out->name_length++] = (char)byte;
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
