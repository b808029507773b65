/* Untrusted text written to an output in a form that its readers accept. */
#ifndef BASE_TEXT_WRITE_H
#define BASE_TEXT_WRITE_H

#include <stdint.h>

#include "base/buf.h"

/* Writes the bytes of characters for which `is_plain` is false as \xNN; see base/printable.h. */
void text_write_escaped(struct out *out, const char *text, size_t length,
			bool (*is_plain)(uint32_t code));

/* Writes each byte that is not valid UTF-8 as U+FFFD. */
void text_write_utf8(struct out *out, const char *text, size_t length);
/* The number of bytes that text_write_utf8() writes. */
size_t text_utf8_length(const char *text, size_t length);

#endif
