/*
 * Compression in the format of gzip, zip and PNG (deflate, RFC 1951), with zlib where libz.so.1 is
 * installed; elsewhere the format is the same, and nothing becomes smaller.
 */
#ifndef FORMAT_DEFLATE_H
#define FORMAT_DEFLATE_H

#include "base/buf.h"

struct deflate;

/* Levels of zlib. Level 1 takes a third of the time of level 6, its default. */
#define DEFLATE_FAST 1
#define DEFLATE_SMALL 6

/* NULL if memory ran out. Writes to `out`, which the caller still owns. */
struct deflate *deflate_new(struct out *out, int level);
void deflate_bytes(struct deflate *deflate, const void *bytes, size_t length);
/* Writes the last block and releases everything. NULL is harmless. */
void deflate_end(struct deflate *deflate);

#endif
