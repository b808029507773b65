/*
 * MessagePack writer: writes to a `struct out`, each value in its shortest form. Strings are
 * repaired to UTF-8 as in JSON, and NaN and infinity are nil: a value reads the same from both
 * formats. A container's length comes first; the caller then writes that many elements (pairs of a
 * map).
 */
#pragma once

#include "base/buf.h"

void msgpack_map(struct out *out, uint64_t pairs);
void msgpack_array(struct out *out, uint64_t elements);
void msgpack_string(struct out *out, const char *text, size_t length);
void msgpack_text(struct out *out, const char *text); /* `text` is NUL-terminated. */
void msgpack_int64(struct out *out, int64_t value);
void msgpack_uint64(struct out *out, uint64_t value);
void msgpack_double(struct out *out, double value);
void msgpack_bool(struct out *out, bool value);
