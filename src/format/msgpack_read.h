/*
 * Reads MessagePack a token at a time from bytes in memory: no tree, no recursion. Binary data
 * comes as a string; keys may be strings only; extension types are read as null. Bytes that are not
 * UTF-8 become U+FFFD.
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
	bool is_done;  /* the outermost value was read */
	char *scratch; /* the last string, if it had to be repaired */
	size_t scratch_capacity;
	const char *failure; /* NULL while all is well */
	bool is_truncated;
};

/* `bytes` must stay until msgpack_reader_fini(). */
void msgpack_reader_init(struct msgpack_reader *reader, const char *bytes, size_t length);
void msgpack_reader_fini(struct msgpack_reader *reader);
enum token_kind msgpack_next(struct msgpack_reader *reader, struct token *token);
/* "byte 71: ..."; E_FORMAT or E_NOMEM. */
int msgpack_error(const struct msgpack_reader *reader, struct proton_error *err);
/* The reader as a token source; borrowed from it. */
struct token_source msgpack_source(struct msgpack_reader *reader);

#endif
