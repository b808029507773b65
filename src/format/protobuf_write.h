/*
 * Writes protocol buffers, field by field, to a `struct out`: the wire format of
 * https://protobuf.dev/programming-guides/encoding/ and nothing of schemas. Lengths are written in
 * as few bytes as they need.
 *
 * A message that is inside another one has its length before its content, so that content is
 * collected until it ends. What is kept in memory is at most one field of the outermost message:
 * with protobuf_end() of a message begun at depth 0 its bytes go to `out`.
 *
 * Running out of memory is sticky in out->errnum, so that writers need no check per field.
 */
#ifndef FORMAT_PROTOBUF_WRITE_H
#define FORMAT_PROTOBUF_WRITE_H

#include "base/buf.h"

#define PROTOBUF_DEPTH_MAX 16u

struct protobuf_writer {
	struct out *out;
	struct out nested; /* content of the messages that have been begun */
	size_t starts[PROTOBUF_DEPTH_MAX];
	uint32_t depth;
};

void protobuf_init(struct protobuf_writer *writer, struct out *out);
/* Also right while messages are open; their content is dropped. */
void protobuf_fini(struct protobuf_writer *writer);

/* Fields of type uint32, uint64, bool and enum; int32 and int64 (negative ones take 10 bytes). */
void protobuf_uint64(struct protobuf_writer *writer, uint32_t field, uint64_t value);
void protobuf_int64(struct protobuf_writer *writer, uint32_t field, int64_t value);
/* sint32 and sint64. */
void protobuf_sint64(struct protobuf_writer *writer, uint32_t field, int64_t value);
void protobuf_fixed64(struct protobuf_writer *writer, uint32_t field, uint64_t value);
void protobuf_double(struct protobuf_writer *writer, uint32_t field, double value);

/* string and bytes; what is no UTF-8 is the caller's business. */
void protobuf_bytes(struct protobuf_writer *writer, uint32_t field, const void *bytes,
		    size_t length);
void protobuf_text(struct protobuf_writer *writer, uint32_t field, const char *text);

/* Repeated numbers in one field; nothing at all if `count` is 0. int64: as with protobuf_int64. */
void protobuf_packed_uint64(struct protobuf_writer *writer, uint32_t field, const uint64_t *values,
			    size_t count);

/* A message in a message; at most PROTOBUF_DEPTH_MAX deep. */
void protobuf_begin(struct protobuf_writer *writer, uint32_t field);
void protobuf_end(struct protobuf_writer *writer);

#endif
