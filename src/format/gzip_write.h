/*
 * gzip files (RFC 1952) with stored, uncompressed content (RFC 1951, 3.2.4): they satisfy readers
 * that require gzip, without a library. docs/design/exports.md explains why that is enough.
 */
#ifndef FORMAT_GZIP_WRITE_H
#define FORMAT_GZIP_WRITE_H

#include "base/buf.h"

#define GZIP_BLOCK_BYTES 65535u

struct gzip_writer {
	struct out *out;
	uint32_t crc;
	uint32_t total_bytes; /* modulo 2^32, as the format requires */
};

/* Writes the header to `out`, which the caller still owns. */
void gzip_begin(struct gzip_writer *writer, struct out *out);
/* Writes at once: efficient for pieces of a few KiB, wasteful for single bytes. */
void gzip_bytes(struct gzip_writer *writer, const void *bytes, size_t length);
/* Ends the file; there is nothing to release. */
void gzip_end(struct gzip_writer *writer);

/* Checksum of gzip, zip and PNG, continued from `crc`, that of the preceding bytes (0: none). */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t length);

#endif
