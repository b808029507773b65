/*
 * Markers: how the start or end of a scope passes through Triton's compiler. A marker is inline
 * assembly that contains only a comment, so it needs no dialect and survives every pass:
 *
 *     // proton.record start NAME        // proton.event end NAME
 *
 * NAME is percent-encoded: every character except letters, digits and _ - . : @ / becomes %XX. In
 * MLIR and LLVM text, quotes, backslashes, `$` and braces have a meaning.
 */
#pragma once

#include "base/buf.h"

#define MARKER_NAME_MAX 255u

struct marker {
	bool is_event; /* an async event */
	bool is_end;
	char name[MARKER_NAME_MAX + 1]; /* decoded, terminated; longer names are truncated */
	size_t name_length;
};

/* Parses the marker at the beginning of inline assembly text. False if there is none. */
bool marker_parse(const char *text, size_t length, struct marker *out);
void marker_write(bool is_event, bool is_end, const char *name, size_t length, struct out *out);
