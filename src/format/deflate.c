/* Compression with zlib, which is loaded when it is first needed. Without it, blocks are stored. */
#include "format/deflate.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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

#define Z_FINISH 4
#define Z_DEFLATED 8
#define Z_RAW_BITS (-15) /* a window of 32 KiB, without a head and a sum */
#define Z_MEMORY 8       /* zlib's own default: 256 KiB */

static struct {
	int (*init)(struct z_stream *, int, int, int, int, int, const char *, int);
	int (*deflate)(struct z_stream *, int);
	int (*end)(struct z_stream *);
} zlib;

struct deflate {
	struct out *out;
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

struct deflate *deflate_new(struct out *out, int level)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct deflate *deflate = calloc(1, sizeof(*deflate));

	pthread_once(&once, load_zlib);
	if (!deflate)
		return NULL;
	deflate->out = out;
	deflate->is_stored = !zlib.init;
	if (deflate->is_stored || zlib.init(&deflate->stream, level, Z_DEFLATED, Z_RAW_BITS,
					    Z_MEMORY, 0, "1", sizeof(deflate->stream)) == 0)
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

void deflate_bytes(struct deflate *deflate, const void *bytes, size_t length)
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

void deflate_end(struct deflate *deflate)
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
