/*
 * CSV fields. Text has the quotes of RFC 4180. A text that a spreadsheet would take for a formula
 * (it begins with = + - @, a tab or a line end) gets a leading apostrophe. A text that begins with
 * an apostrophe gets one too, so removing one apostrophe restores every text.
 */
#pragma once

#include "base/buf.h"

void csv_text(struct out *out, const char *text, size_t length);
/* A field that is always in quotes. */
void csv_quoted(struct out *out, const char *text, size_t length);

/* True for text that gets a leading apostrophe. */
bool csv_is_formula(const char *text, size_t length);
/* Writes text that already has its apostrophe, if it needs one. */
void csv_marked(struct out *out, const char *text, size_t length);

/* Writes all digits; nothing if the value is not finite. */
void csv_number(struct out *out, double value);
