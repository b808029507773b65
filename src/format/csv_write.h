/*
 * Fields of CSV that are text. Quotes are those of RFC 4180. A text that a spreadsheet would take
 * for a formula (it begins with = + - @, a tab or a line end) gets an apostrophe before it, and so
 * does one that begins with an apostrophe: who takes one apostrophe off reads what was written.
 */
#ifndef FORMAT_CSV_WRITE_H
#define FORMAT_CSV_WRITE_H

#include "base/buf.h"

void csv_text(struct out *out, const char *text, size_t length);

/* True for text that gets an apostrophe. */
bool csv_is_formula(const char *text, size_t length);

/* Text that has its apostrophes, if it needs any. */
void csv_quoted(struct out *out, const char *text, size_t length);

#endif
