/* gzip files, zlib streams, and CRC-32. */
#include "format/gzip_write.h"

#define CRC_POLYNOMIAL 0xedb88320u /* RFC 1952, section 8 */

/* Four bits at a time: a constant table of 16 is enough, one of 256 would have to be computed. */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	uint32_t table[16];

	for (uint32_t i = 0; i < 16; i++) {
		table[i] = i;
		for (int bit = 0; bit < 4; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? CRC_POLYNOMIAL : 0);
	}
	crc = ~crc;
	for (size_t i = 0; i < length; i++) {
		crc ^= p[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static void put_u32(struct out *out, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		out_byte(out, (char)(value >> 8 * i));
}

void gzip_begin(struct gzip_writer *writer, struct out *out)
{
	/* Method deflate, no name, no time (equal profiles make equal files), unknown system. */
	static const unsigned char head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};

	*writer = (struct gzip_writer){.out = out, .deflate = deflate_new(out, DEFLATE_SMALL)};
	if (!writer->deflate && !out->errnum)
		out->errnum = ENOMEM;
	out_bytes(out, head, sizeof(head));
}

void gzip_bytes(struct gzip_writer *writer, const void *bytes, size_t length)
{
	writer->crc = crc32_of(writer->crc, bytes, length);
	writer->total_bytes += (uint32_t)length;
	if (writer->deflate)
		deflate_bytes(writer->deflate, bytes, length);
}

void gzip_give(struct gzip_writer *writer, struct out *pending, size_t min)
{
	struct out *out = writer->out;

	if (pending->errnum && !out->errnum)
		out->errnum = pending->errnum;
	if (pending->length <= min)
		return;
	writer->given += pending->length;
	if (out->limit && writer->given > out->limit && !out->errnum) {
		out->total = writer->given;
		out->errnum = EFBIG;
	}
	gzip_bytes(writer, pending->bytes, pending->length);
	pending->length = 0;
}

void gzip_end(struct gzip_writer *writer)
{
	deflate_end(writer->deflate);
	put_u32(writer->out, writer->crc);
	put_u32(writer->out, writer->total_bytes);
}

void zlib_write(struct out *out, const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	struct deflate *deflate;
	uint64_t low = 1; /* Adler-32 */
	uint64_t high = 0;

	out_bytes(out, "\x78\x01", 2);
	deflate = deflate_new(out, DEFLATE_FAST);
	if (!deflate && !out->errnum)
		out->errnum = ENOMEM;
	if (deflate)
		deflate_bytes(deflate, bytes, length);
	deflate_end(deflate);
	for (size_t i = 0; i < length; i++) {
		low += p[i];
		high += low;
		if (i % 4096 == 4095 || i + 1 == length) {
			low %= 65521;
			high %= 65521;
		}
	}
	for (int shift = 24; shift >= 0; shift -= 8)
		out_byte(out, (char)((high << 16 | low) >> shift));
}
