/* MessagePack writer: shortest encodings. */
#include "format/msgpack_write.h"

#include <errno.h>
#include <math.h>

/* Writes a type byte and a big-endian integer of `bytes` bytes. */
static void write_tagged(struct out *out, unsigned tag, uint64_t value, unsigned bytes)
{
	unsigned char text[9] = {(unsigned char)tag};

	for (unsigned i = 0; i < bytes; i++)
		text[1 + i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
	out_bytes(out, text, 1 + bytes);
}

/* Length of a container or string: in the type byte, or in 16 or 32 bits after it. */
static void length_16_32(struct out *out, uint64_t length, unsigned fixed_tag, unsigned fixed_max,
			 unsigned tag_16)
{
	if (length > UINT32_MAX && !out->errnum)
		out->errnum = EOVERFLOW;
	if (length <= fixed_max)
		out_byte(out, (char)(fixed_tag | length));
	else if (length <= UINT16_MAX)
		write_tagged(out, tag_16, length, 2);
	else
		write_tagged(out, tag_16 + 1, length, 4);
}

void msgpack_map(struct out *out, uint64_t pairs)
{
	length_16_32(out, pairs, 0x80, 15, 0xde);
}

void msgpack_array(struct out *out, uint64_t elements)
{
	length_16_32(out, elements, 0x90, 15, 0xdc);
}

void msgpack_string(struct out *out, const char *text, size_t length)
{
	size_t total = text_utf8_length(text, length);

	if (total > 31 && total <= UINT8_MAX)
		write_tagged(out, 0xd9, total, 1);
	else
		length_16_32(out, total, 0xa0, 31, 0xda);
	text_write_utf8(out, text, length);
}

void msgpack_text(struct out *out, const char *text)
{
	msgpack_string(out, text, strlen(text));
}

void msgpack_uint64(struct out *out, uint64_t value)
{
	if (value < 0x80)
		out_byte(out, (char)value);
	else if (value <= UINT8_MAX)
		write_tagged(out, 0xcc, value, 1);
	else if (value <= UINT16_MAX)
		write_tagged(out, 0xcd, value, 2);
	else if (value <= UINT32_MAX)
		write_tagged(out, 0xce, value, 4);
	else
		write_tagged(out, 0xcf, value, 8);
}

void msgpack_int64(struct out *out, int64_t value)
{
	uint64_t bits = (uint64_t)value;

	if (value >= 0)
		msgpack_uint64(out, bits);
	else if (value >= -32)
		out_byte(out, (char)value);
	else if (value >= INT8_MIN)
		write_tagged(out, 0xd0, bits, 1);
	else if (value >= INT16_MIN)
		write_tagged(out, 0xd1, bits, 2);
	else if (value >= INT32_MIN)
		write_tagged(out, 0xd2, bits, 4);
	else
		write_tagged(out, 0xd3, bits, 8);
}

void msgpack_double(struct out *out, double value)
{
	if (!isfinite(value)) {
		out_byte(out, (char)0xc0);
		return;
	}
	write_tagged(out, 0xcb, bits_of_double(value), 8);
}

void msgpack_bool(struct out *out, bool value)
{
	out_byte(out, (char)(value ? 0xc3 : 0xc2));
}
