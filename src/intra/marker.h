/*
 * Markers: how a scope's start or end travels through Triton's compiler. A marker is inline
 * assembly whose text is a comment, so that it needs no dialect and survives every pass:
 *
 *     // proton.record start NAME        // proton.event end NAME
 *
 * NAME is percent-encoded: what is not a letter, digit or one of _ - . : @ / becomes %XX, because
 * the text passes through MLIR and LLVM, where quotes, backslashes, `$` and braces mean something.
 */
#ifndef INTRA_MARKER_H
#define INTRA_MARKER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define MARKER_NAME_MAX 255u

struct marker {
	bool is_event; /* asynchronous */
	bool is_end;
	char name[MARKER_NAME_MAX + 1]; /* decoded, terminated; longer names are cut */
	size_t name_length;
};

/* The marker that the asm text begins with, if it is one. */
bool marker_parse(const char *text, size_t length, struct marker *out);
void marker_write(bool is_event, bool is_end, const char *name, size_t length, struct out *out);

#endif
