/*
 * MessagePack reader: one token at a time from bytes in memory, without a tree and without
 * recursion. Binary data is read as a string, extension types are read as null, and map keys must
 * be strings. Invalid UTF-8 becomes U+FFFD.
 */
#pragma once

#include "format/token.h"

struct msgpack_level;

struct msgpack_reader {
	struct token_source source; /* errors: E_FORMAT or E_NOMEM */
	const uint8_t *bytes;
	const uint8_t *at;
	const uint8_t *end;
	struct msgpack_level *levels; /* open containers */
	uint32_t depth;
	bool is_done;  /* the outermost value has been read */
	char *scratch; /* the last string, if it had to be repaired */
	size_t scratch_capacity;
};

/* `bytes` must stay valid until msgpack_reader_fini(). */
void msgpack_reader_init(struct msgpack_reader *reader, const char *bytes, size_t length);
void msgpack_reader_fini(struct msgpack_reader *reader);
