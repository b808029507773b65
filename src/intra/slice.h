/* Text slices: a pointer and a length into text owned by the caller. */
#ifndef INTRA_SLICE_H
#define INTRA_SLICE_H

#include <stdbool.h>
#include <stddef.h>

struct slice {
	const char *at;
	size_t length;
};

bool slice_is(struct slice slice, const char *text);
bool slices_equal(struct slice a, struct slice b);
/* Without the blanks at both ends. */
struct slice slice_trim(struct slice slice);
/* Removes `text` from the beginning. False if the slice does not begin with it. */
bool slice_take(struct slice *slice, const char *text);
/* True if `word` is the first thing after the slice's leading blanks. */
bool slice_starts(struct slice slice, const char *word);
/* The first occurrence of `text`; NULL. */
const char *slice_find(struct slice slice, const char *text);
/* The last occurrence of `text`; NULL. */
const char *slice_find_last(struct slice slice, const char *text);

#endif
