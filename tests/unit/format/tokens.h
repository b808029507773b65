/* Support for tests of token readers (format/token.h): the tokens of an input as one line. */
#pragma once

#include "unit/tap.h"

#include "format/token.h"

/* "[ k:a 1 2.5 "x" ]", and "end" or "error". Valid until the next call. */
static const char *tokens_text(struct token_source *source)
{
	static const char *const names[] = {"end", "error", "{", "}", "[", "]"};
	static char text[8192];
	struct token token;
	enum token_kind kind;
	size_t at = 0;

	do {
		kind = token_next(source, &token);
		if (at > sizeof(text) - 600)
			FAIL("too many tokens");
		if (kind <= TOKEN_ARRAY_END)
			at += (size_t)sprintf(text + at, "%s ", names[kind]);
		else if (kind == TOKEN_KEY)
			at += (size_t)sprintf(text + at, "k:%.*s ", (int)token.length, token.text);
		else if (kind == TOKEN_STRING)
			at += (size_t)sprintf(text + at, "\"%.*s\" ", (int)token.length,
					      token.text);
		else if (kind == TOKEN_INT64)
			at += (size_t)sprintf(text + at, "%" PRId64 " ", token.as.int64);
		else if (kind == TOKEN_UINT64)
			at += (size_t)sprintf(text + at, "%" PRIu64 "u ", token.as.uint64);
		else if (kind == TOKEN_DOUBLE)
			at += (size_t)sprintf(text + at, "%.17gd ", token.as.float64);
		else if (kind == TOKEN_BOOL)
			at += (size_t)sprintf(text + at, "%s ",
					      token.as.boolean ? "true" : "false");
		else
			at += (size_t)sprintf(text + at, "null ");
	} while (kind != TOKEN_END && kind != TOKEN_ERROR);
	text[at - 1] = '\0';
	CHECK_EQ(token_next(source, &token), kind); /* the same again */
	return text;
}
