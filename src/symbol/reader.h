/*
 * Bounded reader of little-endian binary data: fixed-size integers, LEB128 and strings. A read past
 * the end returns 0, an empty string or an empty span, and sets `is_over`; so callers check once
 * after several reads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes. */
struct span {
	const uint8_t *bytes;
	size_t length;
};

struct reader {
	struct span span;
	size_t at;
	bool is_over; /* something was read past the end */
};

/* The part of `span` that starts at `at`; empty if it is not inside. */
static inline struct span span_part(struct span span, uint64_t at, uint64_t length)
{
	if (!span.bytes || at > span.length || length > span.length - at)
		return (struct span){0};
	return (struct span){span.bytes + at, (size_t)length};
}

/* Longer strings are rejected: tables of many strings that overlap take too long. */
#define READER_TEXT_MAX 65536u

/* The NUL-terminated string at `at`; NULL if there is none. */
static inline const char *span_text(struct span span, uint64_t at)
{
	size_t rest = at < span.length ? span.length - (size_t)at : 0;

	if (!rest || !memchr(span.bytes + at, 0, rest < READER_TEXT_MAX ? rest : READER_TEXT_MAX))
		return NULL;
	return (const char *)span.bytes + at;
}

static inline struct reader reader_of(struct span span)
{
	return (struct reader){.span = span};
}

static inline bool reader_has_more(const struct reader *reader)
{
	return !reader->is_over && reader->at < reader->span.length;
}

static inline struct span reader_bytes(struct reader *reader, uint64_t length)
{
	if (length > reader->span.length - reader->at) {
		reader->at = reader->span.length;
		reader->is_over = true;
		return (struct span){0};
	}
	reader->at += (size_t)length;
	return (struct span){reader->span.bytes + reader->at - length, (size_t)length};
}

/* An unsigned integer of `size` bytes, at most 8. */
static inline uint64_t reader_uint(struct reader *reader, size_t size)
{
	struct span span = reader_bytes(reader, size);
	uint64_t value = 0;

	for (size_t i = span.length; i--;)
		value = value << 8 | span.bytes[i];
	return value;
}

/* An unsigned LEB128; bits beyond 64 are dropped. */
static inline uint64_t reader_uleb(struct reader *reader)
{
	uint64_t value = 0;
	uint64_t byte;
	unsigned shift = 0;

	do {
		byte = reader_uint(reader, 1);
		if (shift < 64)
			value |= (byte & 127) << shift;
		shift += 7;
	} while (byte & 128);
	return value;
}

static inline int64_t reader_sleb(struct reader *reader)
{
	size_t start = reader->at;
	uint64_t value = reader_uleb(reader);
	size_t bits = (reader->at - start) * 7;

	if (bits && bits < 64 && value >> (bits - 1) & 1)
		value |= UINT64_MAX << bits;
	return (int64_t)value;
}

/* The length of a unit of DWARF; `offset_size` is 8 in its 64-bit format, else 4. */
static inline uint64_t reader_unit_length(struct reader *reader, unsigned *offset_size)
{
	uint64_t length = reader_uint(reader, 4);

	*offset_size = length == UINT32_MAX ? 8 : 4;
	return length == UINT32_MAX ? reader_uint(reader, 8) : length;
}

/* A string with its NUL; "" if it has none. */
static inline const char *reader_text(struct reader *reader)
{
	const char *text = span_text(reader->span, reader->at);

	if (text) {
		reader->at += strlen(text) + 1;
		return text;
	}
	reader->at = reader->span.length;
	reader->is_over = true;
	return "";
}
