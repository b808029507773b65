/*
 * Text from a profile, made fit for people: names come from foreign files and may hold escape
 * sequences, newlines or bytes that are no UTF-8, and may be longer than a terminal is wide.
 */
#ifndef VIEWER_PRINT_PRINTABLE_TEXT_H
#define VIEWER_PRINT_PRINTABLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Appends `text`; what is not printable (base/printable.h) becomes "\xNN". */
void text_clean(struct out *out, const char *text, size_t length);

/* The same of lines: their ends stay. */
void text_clean_lines(struct out *out, const char *text, size_t length);

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
