/*
 * Output buffer: bytes are appended to memory, or flushed to a file descriptor in 64 KiB pieces.
 * The first error is kept: after it, appends do nothing and out_finish() reports it, so writers
 * need no check per call.
 */
#pragma once

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/array.h"
#include "base/err.h"

struct out {
	char *bytes;
	size_t length;
	size_t capacity;
	int fd;         /* -1: keep everything in memory */
	int errnum;     /* first failure, 0 = none */
	uint64_t total; /* bytes appended since out_init */
	/* Limit of `total` with a file, of `length` in memory; 0: none. Further appends fail. */
	uint64_t limit;
};

/* True if it failed, or is about to fail, because of `limit`. */
static inline bool out_is_over(const struct out *out)
{
	return out->limit && (out->fd < 0 ? out->errnum == EFBIG : out->total > out->limit);
}

/* Writes to `fd`, which the caller still owns; -1 collects in memory. */
void out_init(struct out *out, int fd);
#define OUT_IN_MEMORY ((struct out){.fd = -1})

/* Fails with an error, of memory for its text, unless it is 0 or there is one already. */
static inline void out_fail(struct out *out, int errnum)
{
	out->errnum = out->errnum ? out->errnum : errnum;
}

/* Fails as if more than `limit` was appended. */
static inline void out_fail_limit(struct out *out)
{
	out->total = out->limit + 1;
	out_fail(out, EFBIG);
}
/* Flushes; returns the first failure as a status. The memory of a collecting `out` stays valid. */
int out_finish(struct out *out, struct proton_error *err);
/* Moves the bytes to the caller: malloc'd, *length bytes and a NUL. NULL after an error. */
char *out_take(struct out *out, size_t *length);
/* Finishes and releases `out`; *text_out is as from out_take(), or unchanged after an error. */
int out_finish_text(struct out *out, char **text_out, size_t *length_out, struct proton_error *err);
/* Releases the memory; calling it twice is harmless. */
void out_fini(struct out *out);

/* Reserves `length` bytes, at most OUT_RESERVE_MAX if writing to a file; NULL after an error. */
#define OUT_RESERVE_MAX 4096
char *out_reserve_slow(struct out *out, size_t length);

static inline char *out_reserve(struct out *out, size_t length)
{
	if (out->capacity - out->length >= length)
		return out->bytes + out->length;
	return out_reserve_slow(out, length);
}

/* Appends what was written there, up to `end`. */
static inline void out_commit(struct out *out, const char *end)
{
	size_t length = (size_t)(end - out->bytes);

	out->total += length - out->length;
	out->length = length;
}

void out_bytes_slow(struct out *out, const void *bytes, size_t length);

static inline void out_bytes(struct out *out, const void *bytes, size_t length)
{
	if (out->capacity - out->length >= length && length) {
		memcpy(out->bytes + out->length, bytes, length);
		out->length += length;
		out->total += length;
	} else {
		out_bytes_slow(out, bytes, length);
	}
}

static inline void out_byte(struct out *out, char byte)
{
	out_bytes(out, &byte, 1);
}

static inline void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

void out_printf(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);

/* Limits of file_read_all(): files of other programs are rejected before much of them is read. */
struct file_limits {
	uint64_t max_bytes; /* 0: no limit */
	/* Checks the first FILE_HEAD_BYTES, or the whole file if it is shorter. NULL: no check. */
	int (*check_head)(const char *name, const char *bytes, size_t length,
			  struct proton_error *err);
};

#define FILE_HEAD_BYTES 4096

/*
 * Reads until there are `length` bytes or the file ends: their number, or -1 with errno. `at`: the
 * place in the file; -1: where the descriptor is.
 */
ssize_t file_read_full(int fd, void *bytes, size_t length, off_t at);

/* Reads a file, a pipe or "-", standard input: malloc'd, with a NUL. `limits` may be NULL. */
int file_read_all(const char *path, const struct file_limits *limits, char **bytes_out,
		  size_t *length_out, struct proton_error *err);

/* Untrusted text in a form that its readers accept. */

/* Writes the bytes of characters for which `is_plain` is false as \xNN; see base/printable.h. */
void text_write_escaped(struct out *out, const char *text, size_t length,
			bool (*is_plain)(uint32_t code));

/* Writes each byte that is not valid UTF-8 as U+FFFD. */
void text_write_utf8(struct out *out, const char *text, size_t length);
/* The number of bytes that text_write_utf8() writes. */
size_t text_utf8_length(const char *text, size_t length);

/* The bits of a double, as files and vectors of words have them. */

static inline uint64_t bits_of_double(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double double_of_bits(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}
