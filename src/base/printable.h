/*
 * Escaping of text for safe printing. Names come from files, devices and command lines. Terminals
 * interpret control characters (colors, titles, the clipboard), line separators end a line of a
 * file, and bidirectional characters make a name look like another. All of these become \xNN, byte
 * by byte.
 */
#pragma once

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/utf8.h"

/* `code` is a code point, or UINT32_MAX for a byte that is not valid UTF-8. */
static inline bool printable_is(uint32_t code)
{
	if (code < 0x7f)
		return code >= 0x20;
	if (code < 0xa0 || code == UINT32_MAX)
		return false;
	return code != 0x61c && code != 0x200e && code != 0x200f &&
	       (code < 0x2028 || code > 0x202e) && (code < 0x2066 || code > 0x2069);
}

#define PRINTABLE_ESCAPE_BYTES 4

/* Writes a byte as \xNN. */
static inline void printable_escape(unsigned char byte, char to[PRINTABLE_ESCAPE_BYTES])
{
	static const char hex[] = "0123456789abcdef";

	to[0] = '\\';
	to[1] = 'x';
	to[2] = hex[byte >> 4];
	to[3] = hex[byte & 15];
}

/* Copies text, printable, cut after a whole character, with a NUL. Its length. No allocation. */
static inline size_t printable_copy(char *to, size_t space, const char *text, size_t length)
{
	size_t used = 0, at = 0;

	while (at < length) {
		uint32_t code;
		size_t bytes = utf8_decode(text + at, length - at, &code);
		size_t needed = printable_is(code) ? bytes : bytes * PRINTABLE_ESCAPE_BYTES;

		if (needed >= space - used)
			break;
		if (printable_is(code))
			memcpy(to + used, text + at, bytes);
		else
			for (size_t i = 0; i < bytes; i++)
				printable_escape((unsigned char)text[at + i],
						 to + used + i * PRINTABLE_ESCAPE_BYTES);
		used += needed;
		at += bytes;
	}
	to[used] = '\0';
	return used;
}

/* Makes a message printable in its buffer of `space` bytes, at most PRINTABLE_MESSAGE_MAX. */
#define PRINTABLE_MESSAGE_MAX 2048
static inline void printable_message(char *text, size_t space)
{
	char raw[PRINTABLE_MESSAGE_MAX];
	size_t length = strnlen(text, space);
	size_t at = 0;
	uint32_t code = 0x20;

	while (at < length && printable_is(code))
		at += utf8_decode(text + at, length - at, &code);
	if (printable_is(code) || space > sizeof(raw))
		return;
	memcpy(raw, text, length);
	printable_copy(text, space, raw, length);
}

/* Quoting of a word for a shell, for commands in messages that users copy. */

/* True if some character of the word means something to a shell. Bytes of UTF-8 mean themselves. */
static inline bool shell_needs_quotes(const char *word)
{
	const char *at = word;

	while (*at && (isalnum((unsigned char)*at) || strchr("/._-+,:@%=", *at) ||
		       (unsigned char)*at >= 0x80))
		at++;
	return !*word || *at;
}

/* Copies the word, in single quotes if they are needed; cut if it does not fit. */
static inline void shell_quote(char *to, size_t space, const char *word)
{
	bool is_quoted = shell_needs_quotes(word);
	size_t used = 0;

	if (is_quoted && space > 8)
		to[used++] = '\'';
	for (; *word && used + 8 < space; word++) {
		if (*word == '\'')
			used += (size_t)snprintf(to + used, space - used, "'\\''");
		else
			to[used++] = *word;
	}
	if (is_quoted && space > 8)
		to[used++] = '\'';
	to[used] = '\0';
}
