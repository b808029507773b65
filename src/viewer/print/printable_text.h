/*
 * Printable text from untrusted names: they may contain escape sequences, newlines or bytes that
 * are not UTF-8, and may be wider than the terminal.
 */
#pragma once

#include "base/buf.h"

/* Appends `text`, with non-printable characters (base/printable.h) as "\xNN". */
void text_clean(struct out *out, const char *text, size_t length);

/* The same for lines: newlines are kept. */
void text_clean_lines(struct out *out, const char *text, size_t length);

/* Width of cleaned text on a terminal, in columns. */
size_t text_columns(const char *text, size_t length);

/*
 * Appends cleaned text. If it is wider than `columns`, an ellipsis (`mark`) replaces its middle, or
 * its beginning if the end is more useful (`keep_end`: paths).
 */
void text_shorten(struct out *out, const char *text, size_t length, size_t columns,
		  const char *mark, bool keep_end);

/* Appends `count` spaces. */
void text_pad(struct out *out, size_t count);
