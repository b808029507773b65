/*
 * MessagePack reader: one token at a time from bytes in memory, without a tree and without
 * recursion. Binary data is read as a string, extension types are read as null, and map keys must
 * be strings. Invalid UTF-8 becomes U+FFFD.
 */
#ifndef FORMAT_MSGPACK_READ_H
#define FORMAT_MSGPACK_READ_H

#include "format/token.h"

struct msgpack_level;

struct msgpack_reader {
	const uint8_t *bytes;
	const uint8_t *at;
	const uint8_t *end;
	struct msgpack_level *levels; /* open containers */
	size_t level_capacity;
	uint32_t depth;
	bool is_done;  /* the outermost value has been read */
	char *scratch; /* the last string, if it had to be repaired */
	size_t scratch_capacity;
	const char *failure; /* NULL if there is no error */
	bool is_truncated;
};

/* `bytes` must stay valid until msgpack_reader_fini(). */
void msgpack_reader_init(struct msgpack_reader *reader, const char *bytes, size_t length);
void msgpack_reader_fini(struct msgpack_reader *reader);
enum token_kind msgpack_next(struct msgpack_reader *reader, struct token *token);
/* "byte 71: ..."; E_FORMAT or E_NOMEM. */
int msgpack_error(const struct msgpack_reader *reader, struct proton_error *err);
/* The reader as a token source; borrowed from it. */
struct token_source msgpack_source(struct msgpack_reader *reader);

#endif
