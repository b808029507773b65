/*
 * Protocol buffer encoder: writes the wire format of
 * https://protobuf.dev/programming-guides/encoding/ field by field to a `struct out`, without
 * schemas. Lengths use as few bytes as possible.
 *
 * The length of a nested message precedes its content, and is inserted when the message ends: so
 * the output is in memory. Running out of memory is kept in out->errnum, so writers need no check
 * per field.
 */
#pragma once

#include "base/buf.h"

#define PROTOBUF_DEPTH_MAX 16u

struct protobuf_writer {
	struct out *out;
	size_t starts[PROTOBUF_DEPTH_MAX];
	uint32_t depth;
};

/* Fields of type uint32, uint64, bool and enum; int32 and int64 (negative ones take 10 bytes). */
void protobuf_uint64(struct protobuf_writer *writer, uint32_t field, uint64_t value);
void protobuf_int64(struct protobuf_writer *writer, uint32_t field, int64_t value);
void protobuf_fixed64(struct protobuf_writer *writer, uint32_t field, uint64_t value);
void protobuf_double(struct protobuf_writer *writer, uint32_t field, double value);

/* bytes, or a string that is known to be UTF-8. */
void protobuf_bytes(struct protobuf_writer *writer, uint32_t field, const void *bytes,
		    size_t length);
/* string: bytes that are not valid UTF-8 become U+FFFD. */
void protobuf_text(struct protobuf_writer *writer, uint32_t field, const char *text, size_t length);

/* Repeated numbers in one field; nothing if `count` is 0. int64: as with protobuf_int64. */
void protobuf_packed_uint64(struct protobuf_writer *writer, uint32_t field, const uint64_t *values,
			    size_t count);

/* Begins a nested message; at most PROTOBUF_DEPTH_MAX deep. */
void protobuf_begin(struct protobuf_writer *writer, uint32_t field);
void protobuf_end(struct protobuf_writer *writer);
