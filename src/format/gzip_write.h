/* gzip files (RFC 1952), and zlib streams (RFC 1950). */
#pragma once

#include "base/buf.h"

struct gzip_writer {
	struct out *out;
	struct deflate *deflate; /* NULL: memory ran out, which `out` reports */
	uint32_t crc;
	uint32_t total_bytes; /* modulo 2^32, as the format requires */
	uint64_t given;       /* by gzip_give() */
};

/* Writes the header to `out`, which the caller still owns. */
void gzip_begin(struct gzip_writer *writer, struct out *out);
void gzip_bytes(struct gzip_writer *writer, const void *bytes, size_t length);
/*
 * Compresses what `pending` has collected in memory, if it is more than `min` bytes. The limit of
 * the file is for these bytes: a reader needs memory for them.
 */
#define GZIP_PIECE_BYTES ((size_t)60 * 1024)
void gzip_give(struct gzip_writer *writer, struct out *pending, size_t min);
/* Ends the file and releases what gzip_begin() took; must be called after it. */
void gzip_end(struct gzip_writer *writer);

/* Checksum of gzip, zip and PNG, continued from `crc` of the preceding bytes (0: none). */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t length);

/* A whole zlib stream, made in little time. */
void zlib_write(struct out *out, const void *bytes, size_t length);
