/* Text slices: a pointer and a length into text owned by the caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct slice {
	const char *at;
	size_t length;
};

static inline struct slice slice_of(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static inline struct slice slice_between(const char *at, const char *end)
{
	return (struct slice){at, (size_t)(end - at)};
}

static inline const char *slice_end(struct slice slice)
{
	return slice.at + slice.length;
}

static inline void slice_skip(struct slice *slice, size_t length)
{
	slice->at += length;
	slice->length -= length;
}

bool slice_is(struct slice slice, const char *text);
/* True for one of the `words`, which have a blank between them. */
bool slice_is_any(struct slice slice, const char *words);
bool slices_equal(struct slice a, struct slice b);
/* Without the blanks at both ends. */
struct slice slice_trim(struct slice slice);
/* Removes `text` from the beginning. False if the slice does not begin with it. */
bool slice_take(struct slice *slice, const char *text);
/* Removes the part up to the next `separator`, and the separator, and returns the part. */
struct slice slice_take_until(struct slice *slice, char separator);
/* Removes everything up to the first `text`, and that. False if there is none. */
bool slice_take_past(struct slice *slice, const char *text);
/* The part before the first `end` outside of brackets and quotes; all of it if there is none. */
struct slice slice_before(struct slice slice, const char *end);
/* Removes a line and returns it without its newline; false at the end. */
bool slice_take_line(struct slice *rest, struct slice *line);
/* Removes a decimal number of at most `max`; false if there is none. */
bool slice_take_number(struct slice *slice, uint32_t max, uint32_t *out);
/* True for characters of a name in MLIR and LLVM IR that is not quoted. */
bool slice_is_name_char(char c);
/* Removes a name; empty if there is none. */
struct slice slice_take_name(struct slice *slice);
/*
 * Removes everything up to the next `sign` outside of quotes, and that with the name after it, such
 * as "%name". False if there is none.
 */
bool slice_take_value(struct slice *slice, char sign, struct slice *value);
/* The byte that the two hexadecimal digits from `at` on mean, or -1. */
int slice_hex_byte(struct slice slice, size_t at);
/* True if `word` is the first thing after the slice's leading blanks. */
bool slice_starts(struct slice slice, const char *word);
bool slice_ends(struct slice slice, const char *text);
/* The first occurrence of `text`; NULL. */
const char *slice_find(struct slice slice, const char *text);
/* The last occurrence of `text`; NULL. */
const char *slice_find_last(struct slice slice, const char *text);
