/*
 * A gzip file (RFC 1952) of what is written to it, stored and not compressed (RFC 1951, 3.2.4):
 * readers that insist on gzip can read it, and no library is needed. docs/design/exports.md says
 * why that is enough.
 */
#ifndef FORMAT_GZIP_WRITE_H
#define FORMAT_GZIP_WRITE_H

#include "base/buf.h"

#define GZIP_BLOCK_BYTES 65535u

struct gzip_writer {
	struct out *out;
	uint32_t crc;
	uint32_t total_bytes; /* modulo 2^32, as the format has it */
};

/* Writes the header to `out`, which the caller keeps. */
void gzip_begin(struct gzip_writer *writer, struct out *out);
/* At once, whatever the length: cheap for pieces of some KiB, wasteful for single bytes. */
void gzip_bytes(struct gzip_writer *writer, const void *bytes, size_t length);
/* Ends the file; nothing is to be released. */
void gzip_end(struct gzip_writer *writer);

/* The check sum of gzip, zip and PNG, of bytes that follow those `crc` is of (0: none). */
uint32_t crc32_of(uint32_t crc, const void *bytes, size_t length);

#endif
