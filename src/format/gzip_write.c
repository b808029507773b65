/* gzip files with stored (uncompressed) content, and CRC-32. */
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

	*writer = (struct gzip_writer){.out = out};
	out_bytes(out, head, sizeof(head));
}

static void stored_block(struct out *out, const void *bytes, uint32_t length, bool is_last)
{
	out_byte(out, is_last);
	out_byte(out, (char)length);
	out_byte(out, (char)(length >> 8));
	out_byte(out, (char)~length);
	out_byte(out, (char)(~length >> 8));
	out_bytes(out, bytes, length);
}

void gzip_bytes(struct gzip_writer *writer, const void *bytes, size_t length)
{
	const char *p = bytes;

	writer->crc = crc32_of(writer->crc, bytes, length);
	writer->total_bytes += (uint32_t)length;
	while (length) {
		uint32_t piece = length < GZIP_BLOCK_BYTES ? (uint32_t)length : GZIP_BLOCK_BYTES;

		stored_block(writer->out, p, piece, false);
		p += piece;
		length -= piece;
	}
}

void gzip_end(struct gzip_writer *writer)
{
	stored_block(writer->out, "", 0, true);
	put_u32(writer->out, writer->crc);
	put_u32(writer->out, writer->total_bytes);
}
