/* Slices of text: comparison, trimming, splitting and search. */
#include "base/slice.h"

bool slice_is(struct slice slice, const char *text)
{
	return slices_equal(slice, slice_of(text));
}

bool slice_is_any(struct slice slice, const char *words)
{
	while (*words) {
		size_t length = strcspn(words, " ");

		if (slices_equal(slice, (struct slice){words, length}))
			return true;
		words += length + (words[length] != '\0');
	}
	return false;
}

bool slices_equal(struct slice a, struct slice b)
{
	return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

struct slice slice_trim(struct slice slice)
{
	while (slice.length && is_blank(slice.at[0]))
		slice_skip(&slice, 1);
	while (slice.length && is_blank(slice.at[slice.length - 1]))
		slice.length--;
	return slice;
}

bool slice_take(struct slice *slice, const char *text)
{
	size_t length = strlen(text);

	if (slice->length < length || memcmp(slice->at, text, length) != 0)
		return false;
	slice_skip(slice, length);
	return true;
}

struct slice slice_take_until(struct slice *slice, char separator)
{
	const char *end = slice->length ? memchr(slice->at, separator, slice->length) : NULL;
	struct slice part = {slice->at, end ? (size_t)(end - slice->at) : slice->length};

	slice_skip(slice, part.length + (end != NULL));
	return part;
}

bool slice_take_past(struct slice *slice, const char *text)
{
	const char *found = slice_find(*slice, text);

	if (found)
		slice_skip(slice, (size_t)(found - slice->at) + strlen(text));
	return found;
}

struct slice slice_before(struct slice slice, const char *end)
{
	size_t depth = 0;
	bool is_string = false;

	for (size_t i = 0; i < slice.length; i++) {
		char c = slice.at[i];
		struct slice rest = {slice.at + i, slice.length - i};

		if (!is_string && depth == 0 && slice_take(&rest, end))
			return (struct slice){slice.at, i};
		if (c == '"')
			is_string = !is_string;
		else if (!is_string && c && strchr("([<{", c))
			depth++;
		else if (!is_string && c && strchr(")]>}", c) && depth)
			depth--;
	}
	return slice;
}

bool slice_take_line(struct slice *rest, struct slice *line)
{
	if (!rest->length)
		return false;
	*line = slice_take_until(rest, '\n');
	return true;
}

bool slice_take_number(struct slice *slice, uint32_t max, uint32_t *out)
{
	uint64_t number = 0;
	size_t i = 0;

	for (; i < slice->length && slice->at[i] >= '0' && slice->at[i] <= '9'; i++) {
		number = number * 10 + (uint64_t)(slice->at[i] - '0');
		if (number > max)
			return false;
	}
	slice_skip(slice, i);
	*out = (uint32_t)number;
	return i > 0;
}

bool slice_is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '$' || c == '.' || c == '_';
}

struct slice slice_take_name(struct slice *slice)
{
	struct slice name = {slice->at, 0};

	while (name.length < slice->length && slice_is_name_char(name.at[name.length]))
		name.length++;
	slice_skip(slice, name.length);
	return name;
}

bool slice_take_value(struct slice *slice, char sign, struct slice *value)
{
	bool is_quoted = false;

	for (; slice->length; slice_skip(slice, 1)) {
		is_quoted ^= *slice->at == '"';
		if (*slice->at != sign || is_quoted)
			continue;
		value->at = slice->at;
		slice_skip(slice, 1);
		value->length = 1 + slice_take_name(slice).length;
		return true;
	}
	return false;
}

static int hex_digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *found = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;

	return found ? (int)(found - digits) : -1;
}

int slice_hex_byte(struct slice slice, size_t at)
{
	int high = at < slice.length ? hex_digit(slice.at[at]) : -1;
	int low = at + 1 < slice.length ? hex_digit(slice.at[at + 1]) : -1;

	return high >= 0 && low >= 0 ? high * 16 + low : -1;
}

bool slice_starts(struct slice slice, const char *word)
{
	while (slice.length && (*slice.at == ' ' || *slice.at == '\t'))
		slice_skip(&slice, 1);
	return slice_take(&slice, word);
}

bool slice_ends(struct slice slice, const char *text)
{
	size_t length = strlen(text);

	return slice.length >= length && memcmp(slice_end(slice) - length, text, length) == 0;
}

const char *slice_find(struct slice slice, const char *text)
{
	return slice.length ? memmem(slice.at, slice.length, text, strlen(text)) : NULL;
}

const char *slice_find_last(struct slice slice, const char *text)
{
	for (; slice.length; slice.length--)
		if (slice_ends(slice, text))
			return slice_end(slice) - strlen(text);
	return NULL;
}
