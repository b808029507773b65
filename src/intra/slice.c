/* Slices of text: comparison, trimming and search. */
#include "intra/slice.h"

#include <string.h>

bool slice_is(struct slice slice, const char *text)
{
	return strlen(text) == slice.length && memcmp(slice.at, text, slice.length) == 0;
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
	while (slice.length && is_blank(slice.at[0])) {
		slice.at++;
		slice.length--;
	}
	while (slice.length && is_blank(slice.at[slice.length - 1]))
		slice.length--;
	return slice;
}

bool slice_take(struct slice *slice, const char *text)
{
	size_t length = strlen(text);

	if (slice->length < length || memcmp(slice->at, text, length) != 0)
		return false;
	slice->at += length;
	slice->length -= length;
	return true;
}

const char *slice_find(struct slice slice, const char *text)
{
	return slice.length ? memmem(slice.at, slice.length, text, strlen(text)) : NULL;
}

const char *slice_find_last(struct slice slice, const char *text)
{
	size_t length = strlen(text);

	for (size_t i = slice.length; i >= length && i > 0; i--)
		if (memcmp(slice.at + i - length, text, length) == 0)
			return slice.at + i - length;
	return NULL;
}

bool slice_starts(struct slice line, const char *word)
{
	size_t length = strlen(word);

	while (line.length && (*line.at == ' ' || *line.at == '\t')) {
		line.at++;
		line.length--;
	}
	return line.length >= length && memcmp(line.at, word, length) == 0;
}
