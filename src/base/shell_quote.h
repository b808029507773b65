/* Quoting of a word for a shell, for commands in messages that users copy. */
#ifndef BASE_SHELL_QUOTE_H
#define BASE_SHELL_QUOTE_H

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

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

#endif
