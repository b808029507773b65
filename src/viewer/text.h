/*
 * Text from a profile, made fit for people: names come from foreign files and may hold escape
 * sequences, newlines or bytes that are no UTF-8, and may be longer than a terminal is wide.
 */
#ifndef VIEWER_TEXT_H
#define VIEWER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * Decodes one character of `text`, `length` > 0 bytes; returns how many bytes it has. A byte that
 * starts no valid UTF-8 gives *code = UINT32_MAX and 1.
 */
size_t text_decode(const char *text, size_t length, uint32_t *code);

/* Appends `text`; control characters and bytes that are no UTF-8 become "\xNN". */
void text_clean(struct out *out, const char *text, size_t length);

/* Columns that cleaned text takes on a terminal. */
size_t text_columns(const char *text, size_t length);

/*
 * Appends cleaned text; if it takes more than `columns`, `mark` replaces its middle, or its
 * beginning where the end tells more (`keep_end`: paths).
 */
void text_shorten(struct out *out, const char *text, size_t length, size_t columns,
		  const char *mark, bool keep_end);

/* Appends `count` spaces. */
void text_pad(struct out *out, size_t count);

#endif
