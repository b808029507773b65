/*
 * External correlation: 64 bits that this backend gives to each dispatch and copy, and that its
 * record carries. 0 is a dispatch of which the backend knows nothing: no session was active.
 */
#ifndef BACKEND_AMD_SDK_EXTERNAL_H
#define BACKEND_AMD_SDK_EXTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define SDK_ORDINAL_MAX 0x3ffffu

struct sdk_external {
	uint32_t number;  /* the launch in record/thread/correlate.h; never 0 */
	uint32_t ordinal; /* of the dispatch in its call, from 1; 0: not of its graph */
	uint32_t stream;  /* stream_numbers.h */
	bool is_of_memory_call;
};

/* Bits 0 to 31, 32 to 49, 50 to 61, 62; bit 63 is always 1. */
static inline uint64_t sdk_external_pack(struct sdk_external external)
{
	uint64_t ordinal = external.ordinal < SDK_ORDINAL_MAX ? external.ordinal : SDK_ORDINAL_MAX;

	return external.number | ordinal << 32 | (uint64_t)(external.stream & 0xfff) << 50 |
	       (uint64_t)external.is_of_memory_call << 62 | 1ull << 63;
}

/* False if the value is not from this backend. */
static inline bool sdk_external_unpack(uint64_t value, struct sdk_external *out)
{
	out->number = (uint32_t)value;
	out->ordinal = (uint32_t)(value >> 32) & SDK_ORDINAL_MAX;
	out->stream = (uint32_t)(value >> 50) & 0xfff;
	out->is_of_memory_call = value >> 62 & 1;
	return value >> 63;
}

#endif
