/*
 * Tokens of nested data: the common interface of the JSON and MessagePack readers. One loader works
 * with both, and no reader needs recursion or a tree in memory.
 *
 * Containers have a begin and an end token; in an object each value follows its TOKEN_KEY. After
 * TOKEN_END or TOKEN_ERROR the same token is returned forever.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum token_kind {
	TOKEN_END,   /* the input is complete */
	TOKEN_ERROR, /* the input is incomplete or invalid */
	TOKEN_OBJECT,
	TOKEN_OBJECT_END,
	TOKEN_ARRAY,
	TOKEN_ARRAY_END,
	TOKEN_KEY,
	TOKEN_STRING,
	TOKEN_INT64,
	TOKEN_UINT64, /* above INT64_MAX */
	TOKEN_DOUBLE,
	TOKEN_BOOL,
	TOKEN_NULL,
};

struct token {
	enum token_kind kind;
	/* Keys and strings: valid UTF-8, without NUL, invalid after the next token. */
	const char *text;
	size_t length;
	union {
		int64_t int64;
		uint64_t uint64;
		double float64;
		bool boolean;
	} as;
};

/* The first member of a reader. */
struct token_source {
	enum token_kind (*next)(struct token_source *source, struct token *token);
	/* Sets the message of the last TOKEN_ERROR and returns its status. */
	int (*error)(const struct token_source *source, struct proton_error *err);
	const char *failure; /* NULL if there is no error */
	bool is_truncated;   /* the error is an unexpected end of input */
};

static inline enum token_kind token_next(struct token_source *source, struct token *token)
{
	return source->next(source, token);
}

/* Skips the rest of the value that `first` begins. False at the end of readable input. */
static inline bool token_skip(struct token_source *source, enum token_kind first)
{
	struct token token;
	uint64_t depth = 0;

	for (enum token_kind kind = first;; kind = token_next(source, &token)) {
		if (kind == TOKEN_END || kind == TOKEN_ERROR)
			return false;
		if (kind == TOKEN_OBJECT || kind == TOKEN_ARRAY)
			depth++;
		else if (kind == TOKEN_OBJECT_END || kind == TOKEN_ARRAY_END)
			depth--;
		if (depth == 0)
			return true;
	}
}

/* Deeper nesting is an error; 10^5 Python frames need a quarter of this. */
#define TOKEN_DEPTH_MAX (1u << 20)
