/* UTF-8: validation, decoding, encoding, and replacement of invalid bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* Length of the valid sequence at the start of `text` (at least 1 byte), 0 if it is invalid. */
static inline size_t utf8_sequence(const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char first = p[0];
	unsigned char low = 0x80; /* bounds of the second byte: no overlong forms, no surrogates */
	unsigned char high = 0xbf;

	if (first < 0x80)
		return 1;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	size_t wanted = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if (length < wanted || p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < wanted; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return wanted;
}

/* Number of valid bytes at the start of `text`. */
static inline size_t utf8_valid_length(const char *text, size_t length)
{
	size_t at = 0;

	while (at < length) {
		size_t step = utf8_sequence(text + at, length - at);

		if (!step)
			break;
		at += step;
	}
	return at;
}

/* Decodes a character of `text`; its length. Invalid UTF-8: *code = UINT32_MAX, and 1. */
static inline size_t utf8_decode(const char *text, size_t length, uint32_t *code)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t bytes = utf8_sequence(text, length);

	if (bytes <= 1) {
		*code = bytes ? p[0] : UINT32_MAX;
		return 1;
	}
	*code = p[0] & (0xffu >> (bytes + 1));
	for (size_t i = 1; i < bytes; i++)
		*code = *code << 6 | (p[i] & 0x3fu);
	return bytes;
}

/* Writes a code point (U+FFFD if invalid) as UTF-8 to `text` (room for 4); returns the length. */
static inline size_t utf8_encode(uint32_t code, char *text)
{
	static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0}; /* bits, by length */

	if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		code = 0xfffd;
	size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
	for (size_t i = length - 1; i > 0; i--, code >>= 6)
		text[i] = (char)(0x80 | (code & 0x3f));
	text[0] = (char)(first[length] | code);
	return length;
}

/* Copies `text`, invalid bytes replaced; `to` has room for 3 * length. Returns the length. */
static inline size_t utf8_repair(const char *text, size_t length, char *to)
{
	size_t used = 0;

	while (length) {
		size_t valid = utf8_valid_length(text, length);

		memcpy(to + used, text, valid);
		used += valid;
		if (valid == length)
			break;
		memcpy(to + used, UTF8_REPLACEMENT, 3);
		used += 3;
		text += valid + 1;
		length -= valid + 1;
	}
	return used;
}
