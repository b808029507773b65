/*
 * JSON writer: writes values one at a time to a `struct out`, with commas, line breaks and
 * indentation. Strings are escaped and invalid UTF-8 becomes U+FFFD. Integers are exact, and
 * doubles are the shortest that read back the same. NaN and infinity, which JSON lacks, become
 * null.
 *
 * The caller pairs begins with ends and puts a key before each value of an object.
 */
#pragma once

#include "base/buf.h"

/*
 * Pretty-printing indents by 4 spaces per level up to this level. Otherwise a tree thousands of
 * nodes deep would be mostly indentation.
 */
#define JSON_INDENT_LEVELS_MAX 40u

struct json_writer {
	struct out *out;
	uint32_t depth;
	bool is_pretty;
	bool has_element; /* the container is not empty */
	bool is_after_key;
};

/* Starts a new line before the next element, unless the text is pretty-printed. */
void json_line_break(struct json_writer *writer);

void json_writer_init(struct json_writer *writer, struct out *out, bool is_pretty);

void json_begin_object(struct json_writer *writer);
void json_end_object(struct json_writer *writer);
void json_begin_array(struct json_writer *writer);
void json_end_array(struct json_writer *writer);

void json_key(struct json_writer *writer, const char *text);
void json_string(struct json_writer *writer, const char *text, size_t length);
void json_text(struct json_writer *writer, const char *text);
void json_int64(struct json_writer *writer, int64_t value);
void json_uint64(struct json_writer *writer, uint64_t value);
void json_double(struct json_writer *writer, double value);
void json_bool(struct json_writer *writer, bool value);

/* A key and its value, or the beginning of its value. */
void json_key_text(struct json_writer *writer, const char *key, const char *text);
void json_key_string(struct json_writer *writer, const char *key, const char *text, size_t length);
void json_key_uint64(struct json_writer *writer, const char *key, uint64_t value);
void json_key_double(struct json_writer *writer, const char *key, double value);
void json_key_bool(struct json_writer *writer, const char *key, bool value);
void json_key_array(struct json_writer *writer, const char *key);
void json_key_object(struct json_writer *writer, const char *key);

/* A string in quotes, escaped, as json_key_quoted() and json_string_quoted() take it. */
void json_quote(struct out *out, const char *text, size_t length);
void json_key_quoted(struct json_writer *writer, const char *quoted, size_t length);
void json_string_quoted(struct json_writer *writer, const char *quoted, size_t length);
