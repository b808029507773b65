/* gzip files, zlib streams, CRC-32; and zlib, which is loaded when it is first needed. */
#include "format/gzip_write.h"

#include <dlfcn.h>
#include <pthread.h>

/* Of zlib.h: all versions 1 have these functions and this struct. */
struct z_stream {
	const void *next_in;
	unsigned avail_in;
	unsigned long total_in;
	void *next_out;
	unsigned avail_out;
	unsigned long total_out;
	const char *message;
	void *others[4];
	int data_type;
	unsigned long checksum, reserved;
};

/* Levels of zlib. Level 1 takes a third of the time of level 6, its default. */
#define DEFLATE_FAST 1
#define DEFLATE_SMALL 6

#define Z_FINISH 4
#define Z_DEFLATED 8
#define Z_BITS 15  /* a window of 32 KiB, with a head and a sum; negative: without them */
#define Z_MEMORY 8 /* zlib's own default: 256 KiB */

static struct {
	int (*init)(struct z_stream *, int, int, int, int, int, const char *, int);
	int (*deflate)(struct z_stream *, int);
	int (*end)(struct z_stream *);
} zlib;

/*
 * Compression in the format of gzip, zip and PNG (deflate, RFC 1951), with zlib where libz.so.1 is
 * installed; elsewhere the format is the same, and nothing becomes smaller.
 */
struct deflate {
	struct out *out; /* which the caller still owns */
	struct z_stream stream;
	bool is_stored;
	unsigned char chunk[65536]; /* of the output */
};

static void *find_function(void *library, const char *name)
{
	return library ? dlsym(library, name) : NULL;
}

static void load_zlib(void)
{
	void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
	void *functions[] = {find_function(library, "deflateInit2_"),
			     find_function(library, "deflate"),
			     find_function(library, "deflateEnd")};

	_Static_assert(sizeof(functions) == sizeof(zlib), "one pointer for each function");
	if (functions[0] && functions[1] && functions[2])
		memcpy(&zlib, functions, sizeof(zlib)); /* pointers to code */
}

/* NULL if memory ran out. Not `is_raw`: zlib, if there is one, writes the head and the sum. */
static struct deflate *deflate_new(struct out *out, int level, bool is_raw)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct deflate *deflate = calloc(1, sizeof(*deflate));

	pthread_once(&once, load_zlib);
	if (!deflate)
		return NULL;
	deflate->out = out;
	deflate->is_stored = !zlib.init;
	if (deflate->is_stored ||
	    zlib.init(&deflate->stream, level, Z_DEFLATED, is_raw ? -Z_BITS : Z_BITS, Z_MEMORY, 0,
		      "1", sizeof(deflate->stream)) == 0)
		return deflate;
	free(deflate);
	return NULL;
}

/* Blocks of at most 65,535 bytes: whether it is the last one, the length, its complement. */
static void store(struct deflate *deflate, const char *bytes, size_t length, bool is_last)
{
	do {
		unsigned part = length < UINT16_MAX ? (unsigned)length : UINT16_MAX;
		const char head[] = {(char)is_last, (char)part, (char)(part >> 8), (char)~part,
				     (char)(~part >> 8)};

		out_bytes(deflate->out, head, sizeof(head));
		out_bytes(deflate->out, bytes, part);
		bytes += part;
		length -= part;
	} while (length);
}

static void compress_rest(struct deflate *deflate, int flush)
{
	struct z_stream *stream = &deflate->stream;

	do {
		stream->next_out = deflate->chunk;
		stream->avail_out = sizeof(deflate->chunk);
		zlib.deflate(stream, flush);
		out_bytes(deflate->out, deflate->chunk, sizeof(deflate->chunk) - stream->avail_out);
	} while (!stream->avail_out);
}

static void deflate_bytes(struct deflate *deflate, const void *bytes, size_t length)
{
	const char *at = bytes;

	if (deflate->is_stored && length)
		store(deflate, at, length, false);
	while (!deflate->is_stored && length) {
		unsigned part = length < INT32_MAX ? (unsigned)length : INT32_MAX;

		deflate->stream.next_in = at;
		deflate->stream.avail_in = part;
		compress_rest(deflate, 0);
		at += part;
		length -= part;
	}
}

/* Writes the last block and releases everything. NULL is harmless. */
static void deflate_end(struct deflate *deflate)
{
	if (!deflate)
		return;
	if (deflate->is_stored) {
		store(deflate, "", 0, true);
	} else {
		compress_rest(deflate, Z_FINISH);
		zlib.end(&deflate->stream);
	}
	free(deflate);
}

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

	*writer =
		(struct gzip_writer){.out = out, .deflate = deflate_new(out, DEFLATE_SMALL, true)};
	out_fail(out, writer->deflate ? 0 : ENOMEM);
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

	out_fail(out, pending->errnum);
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
	struct deflate *deflate = deflate_new(out, DEFLATE_FAST, false);
	bool is_stored = deflate && deflate->is_stored;
	const unsigned char *p = bytes;
	uint64_t low = 1; /* Adler-32 */
	uint64_t high = 0;

	out_fail(out, deflate ? 0 : ENOMEM);
	if (is_stored)
		out_bytes(out, "\x78\x01", 2);
	if (deflate)
		deflate_bytes(deflate, bytes, length);
	deflate_end(deflate);
	for (size_t i = 0; is_stored && i < length; i++) {
		low += p[i];
		high += low;
		if (i % 4096 == 4095 || i + 1 == length) {
			low %= 65521;
			high %= 65521;
		}
	}
	for (int shift = 24; is_stored && shift >= 0; shift -= 8)
		out_byte(out, (char)((high << 16 | low) >> shift));
}
