/* Protocol buffer encoder. */
#include "format/protobuf_write.h"

#include <assert.h>

#define VARINT_BYTES_MAX 10

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_LENGTH = 2,
};

static inline char *put_varint(char *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (char)(value | 0x80);
		value >>= 7;
	}
	*at++ = (char)value;
	return at;
}

static size_t varint_length(uint64_t value)
{
	size_t length = 1;

	while (value >>= 7)
		length++;
	return length;
}

static inline void put_number(struct protobuf_writer *writer, uint32_t field, enum wire_type type,
			      uint64_t value)
{
	char *at = out_reserve(writer->out, 2 * VARINT_BYTES_MAX);

	if (!at)
		return;
	at = put_varint(at, (uint64_t)field << 3 | type);
	if (type == WIRE_FIXED64)
		memcpy(at, &value, sizeof(value)); /* little-endian, as this machine is */
	out_commit(writer->out, type == WIRE_FIXED64 ? at + sizeof(value) : put_varint(at, value));
}

void protobuf_uint64(struct protobuf_writer *writer, uint32_t field, uint64_t value)
{
	put_number(writer, field, WIRE_VARINT, value);
}

void protobuf_int64(struct protobuf_writer *writer, uint32_t field, int64_t value)
{
	protobuf_uint64(writer, field, (uint64_t)value);
}

void protobuf_fixed64(struct protobuf_writer *writer, uint32_t field, uint64_t value)
{
	put_number(writer, field, WIRE_FIXED64, value);
}

void protobuf_double(struct protobuf_writer *writer, uint32_t field, double value)
{
	protobuf_fixed64(writer, field, bits_of_double(value));
}

void protobuf_bytes(struct protobuf_writer *writer, uint32_t field, const void *bytes,
		    size_t length)
{
	put_number(writer, field, WIRE_LENGTH, length);
	out_bytes(writer->out, bytes, length);
}

void protobuf_text(struct protobuf_writer *writer, uint32_t field, const char *text, size_t length)
{
	put_number(writer, field, WIRE_LENGTH, text_utf8_length(text, length));
	text_write_utf8(writer->out, text, length);
}

void protobuf_packed_uint64(struct protobuf_writer *writer, uint32_t field, const uint64_t *values,
			    size_t count)
{
	size_t length = 0;

	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		length += varint_length(values[i]);
	put_number(writer, field, WIRE_LENGTH, length);
	for (size_t i = 0; i < count; i++) {
		char bytes[VARINT_BYTES_MAX];

		out_bytes(writer->out, bytes, (size_t)(put_varint(bytes, values[i]) - bytes));
	}
}

void protobuf_begin(struct protobuf_writer *writer, uint32_t field)
{
	assert(writer->depth < PROTOBUF_DEPTH_MAX);
	put_number(writer, field, WIRE_LENGTH, 0); /* longer lengths make space */
	writer->starts[writer->depth++] = writer->out->length;
}

/* Makes space for a length of more than one byte before the content. */
static bool make_space(struct out *out, size_t start, size_t length)
{
	static const char zeros[VARINT_BYTES_MAX];
	size_t extra = varint_length(length) - 1;

	out_bytes(out, zeros, extra);
	if (!out->errnum)
		memmove(out->bytes + start + extra, out->bytes + start, length);
	return !out->errnum;
}

void protobuf_end(struct protobuf_writer *writer)
{
	struct out *out = writer->out;

	assert(writer->depth > 0);
	size_t start = writer->starts[--writer->depth];
	size_t length = out->length - start;
	if (!out->errnum && (length < 0x80 || make_space(out, start, length)))
		put_varint(out->bytes + start - 1, length);
}
