/* Protocol buffer encoder. */
#include "format/protobuf_write.h"

#include <assert.h>

#include "base/buf.h"

#define VARINT_BYTES_MAX 10

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_LENGTH = 2,
};

void protobuf_init(struct protobuf_writer *writer, struct out *out)
{
	*writer = (struct protobuf_writer){.out = out};
	out_init(&writer->nested, -1);
}

void protobuf_fini(struct protobuf_writer *writer)
{
	out_fini(&writer->nested);
	writer->depth = 0;
}

static size_t put_varint(char *bytes, uint64_t value)
{
	size_t length = 0;

	while (value >= 0x80) {
		bytes[length++] = (char)(value | 0x80);
		value >>= 7;
	}
	bytes[length++] = (char)value;
	return length;
}

static size_t varint_length(uint64_t value)
{
	size_t length = 1;

	while (value >>= 7)
		length++;
	return length;
}

static size_t put_tag(char *bytes, uint32_t field, enum wire_type type)
{
	return put_varint(bytes, (uint64_t)field << 3 | type);
}

/* The output for the next bytes. */
static struct out *output_of(struct protobuf_writer *writer)
{
	return writer->depth ? &writer->nested : writer->out;
}

static void put_number(struct protobuf_writer *writer, uint32_t field, enum wire_type type,
		       uint64_t value)
{
	char bytes[2 * VARINT_BYTES_MAX];
	size_t length = put_tag(bytes, field, type);

	length += put_varint(bytes + length, value);
	out_bytes(output_of(writer), bytes, length);
}

void protobuf_uint64(struct protobuf_writer *writer, uint32_t field, uint64_t value)
{
	put_number(writer, field, WIRE_VARINT, value);
}

void protobuf_int64(struct protobuf_writer *writer, uint32_t field, int64_t value)
{
	protobuf_uint64(writer, field, (uint64_t)value);
}

void protobuf_double(struct protobuf_writer *writer, uint32_t field, double value)
{
	char bytes[VARINT_BYTES_MAX + sizeof(value)];
	size_t length = put_tag(bytes, field, WIRE_FIXED64);

	memcpy(bytes + length, &value, sizeof(value)); /* little-endian, as this machine is */
	out_bytes(output_of(writer), bytes, length + sizeof(value));
}

void protobuf_bytes(struct protobuf_writer *writer, uint32_t field, const void *bytes,
		    size_t length)
{
	put_number(writer, field, WIRE_LENGTH, length);
	out_bytes(output_of(writer), bytes, length);
}

void protobuf_text(struct protobuf_writer *writer, uint32_t field, const char *text, size_t length)
{
	put_number(writer, field, WIRE_LENGTH, text_utf8_length(text, length));
	text_write_utf8(output_of(writer), text, length);
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

		out_bytes(output_of(writer), bytes, put_varint(bytes, values[i]));
	}
}

void protobuf_begin(struct protobuf_writer *writer, uint32_t field)
{
	char bytes[VARINT_BYTES_MAX + 1];
	size_t length = put_tag(bytes, field, WIRE_LENGTH);

	assert(writer->depth < PROTOBUF_DEPTH_MAX);
	bytes[length++] = 0; /* enough for most; protobuf_end() makes space for longer ones */
	out_bytes(&writer->nested, bytes, length);
	writer->starts[writer->depth++] = writer->nested.length;
}

/* Inserts the length of the innermost message before its content. */
static void put_length(struct out *nested, size_t start)
{
	size_t length = nested->length - start;
	size_t extra = varint_length(length) - 1;

	if (extra) {
		static const char zeros[VARINT_BYTES_MAX];

		out_bytes(nested, zeros, extra);
		if (nested->errnum)
			return;
		memmove(nested->bytes + start + extra, nested->bytes + start, length);
	}
	put_varint(nested->bytes + start - 1, length);
}

void protobuf_end(struct protobuf_writer *writer)
{
	struct out *nested = &writer->nested;

	assert(writer->depth > 0);
	writer->depth--;
	if (!nested->errnum)
		put_length(nested, writer->starts[writer->depth]);
	if (nested->errnum) {
		if (!writer->out->errnum)
			writer->out->errnum = nested->errnum;
		return;
	}
	if (writer->depth == 0) {
		out_bytes(writer->out, nested->bytes, nested->length);
		nested->length = 0;
	}
}
