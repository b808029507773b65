/*
 * JSON reader (RFC 8259): one token at a time from bytes in memory, without a tree and without
 * recursion. Integers are exact within int64 and uint64; larger ones become doubles. Strings are
 * unescaped; invalid UTF-8 and lone surrogates become U+FFFD.
 */
#pragma once

#include "format/token.h"

struct json_reader {
	struct token_source source; /* errors: E_FORMAT or E_NOMEM */
	const char *bytes;
	const char *at;
	const char *end;
	uint8_t *nesting; /* one bit per level, set for an object */
	size_t nesting_capacity;
	uint32_t depth;
	uint32_t state;
	char *scratch; /* the last string, if it is not borrowed from the input */
	size_t scratch_capacity;
	const char *failed_at;
};

/* `bytes` must stay valid until json_reader_fini(). */
void json_reader_init(struct json_reader *reader, const char *bytes, size_t length);
void json_reader_fini(struct json_reader *reader);
