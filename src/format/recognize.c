/* Recognizing outputs of a session by their first bytes. */
#include "format/recognize.h"

#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "format/profile_view.h"

/* Member names of a node in hatchet's literal format. */
static bool is_member(const char *bytes, size_t length)
{
	static const char *const members[] = {"frame", "children", "metrics"};

	for (size_t i = 0; i < ARRAY_LENGTH(members); i++)
		if (length >= strlen(members[i]) &&
		    memcmp(bytes, members[i], strlen(members[i])) == 0)
			return true;
	return false;
}

static size_t skip_space(const char *bytes, size_t length, size_t at)
{
	while (at < length && memchr(" \t\r\n", bytes[at], 4))
		at++;
	return at;
}

/* [{"frame": ... */
static bool is_hatchet(const char *bytes, size_t length)
{
	static const char opening[] = "[{\"";
	size_t at = 0;

	for (size_t i = 0; i < sizeof(opening) - 1; i++) {
		at = skip_space(bytes, length, at);
		if (at == length || bytes[at++] != opening[i])
			return false;
	}
	return is_member(bytes + at, length - at);
}

/* True for an array that begins with a map with a short key. */
static bool is_msgpack(const char *bytes, size_t length)
{
	const unsigned char *b = (const unsigned char *)bytes;
	size_t at;

	if (length < 8 || (b[0] & 0xf0) != 0x90)
		return false;
	at = (b[1] & 0xf0) == 0x80 ? 2 : b[1] == 0xde ? 4 : 0;
	return at && (b[at] & 0xe0) == 0xa0 && is_member(bytes + at + 1, length - at - 1);
}

static bool is_chrome_trace(const char *bytes, size_t length)
{
	size_t at = skip_space(bytes, length, 0);

	return at < length && bytes[at] == '{' &&
	       (memmem(bytes, length, "\"traceEvents\"", 13) ||
		memmem(bytes, length, "\"displayTimeUnit\"", 17));
}

static bool read_varint(const unsigned char *b, size_t length, size_t *at, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; shift < 64 && *at < length; shift += 7) {
		*value |= (uint64_t)(b[*at] & 0x7f) << shift;
		if (!(b[(*at)++] & 0x80))
			return true;
	}
	return false;
}

/* True if these bytes are the fields of one protocol buffer message. */
static bool is_message(const unsigned char *b, size_t length)
{
	size_t at = 0;

	while (at < length) {
		uint64_t tag;
		uint64_t size;

		if (!read_varint(b, length, &at, &tag) || tag >> 3 == 0)
			return false;
		switch (tag & 7) {
		case 0:
			if (!read_varint(b, length, &at, &size))
				return false;
			size = 0;
			break;
		case 1:
			size = 8;
			break;
		case 2:
			if (!read_varint(b, length, &at, &size))
				return false;
			break;
		case 5:
			size = 4;
			break;
		default:
			return false;
		}
		if (size > length - at)
			return false;
		at += size;
	}
	return true;
}

/* True for trace packets, of which the first is small. */
static bool is_perfetto(const char *bytes, size_t length)
{
	const unsigned char *b = (const unsigned char *)bytes;
	uint64_t size;
	size_t at = 1;

	return length && b[0] == 0x0a && read_varint(b, length, &at, &size) && size &&
	       size <= length - at && is_message(b + at, size) &&
	       (at + size == length || b[at + size] == 0x0a);
}

bool recognize_profile(const char *bytes, size_t length)
{
	return profile_view_recognize(bytes, length) || is_hatchet(bytes, length) ||
	       is_msgpack(bytes, length) || is_chrome_trace(bytes, length) ||
	       is_perfetto(bytes, length);
}
