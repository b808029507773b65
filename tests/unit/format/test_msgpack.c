/* format/msgpack_write and msgpack_read: shortest forms, every type, wrong lengths. */
#include "unit/format/tokens.h"

#include "format/msgpack_read.h"
#include "format/msgpack_write.h"

static void check_bytes(struct out *out, const char *expected, size_t length)
{
	CHECK_EQ(out->length, length);
	CHECK_MEM(out->bytes, expected, length);
	out_fini(out);
}

#define WRITES(call, literal)                                                                      \
	do {                                                                                       \
		struct out out;                                                                    \
                                                                                                   \
		out_init(&out, -1);                                                                \
		call;                                                                              \
		check_bytes(&out, literal, sizeof(literal) - 1);                                   \
	} while (0)

TEST(numbers_take_their_shortest_form)
{
	WRITES(msgpack_int64(&out, 0), "\x00");
	WRITES(msgpack_int64(&out, 127), "\x7f");
	WRITES(msgpack_int64(&out, 128), "\xcc\x80");
	WRITES(msgpack_int64(&out, 256), "\xcd\x01\x00");
	WRITES(msgpack_int64(&out, 65536), "\xce\x00\x01\x00\x00");
	WRITES(msgpack_uint64(&out, UINT64_MAX), "\xcf\xff\xff\xff\xff\xff\xff\xff\xff");
	WRITES(msgpack_int64(&out, -1), "\xff");
	WRITES(msgpack_int64(&out, -32), "\xe0");
	WRITES(msgpack_int64(&out, -33), "\xd0\xdf");
	WRITES(msgpack_int64(&out, -129), "\xd1\xff\x7f");
	WRITES(msgpack_int64(&out, -32769), "\xd2\xff\xff\x7f\xff");
	WRITES(msgpack_int64(&out, INT64_MIN), "\xd3\x80\x00\x00\x00\x00\x00\x00\x00");
	WRITES(msgpack_double(&out, 1.5), "\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00");
	WRITES(msgpack_double(&out, NAN), "\xc0");
	WRITES(msgpack_bool(&out, true), "\xc3");
}

TEST(containers_and_strings_take_their_shortest_form)
{
	WRITES(msgpack_map(&out, 15), "\x8f");
	WRITES(msgpack_map(&out, 16), "\xde\x00\x10");
	WRITES(msgpack_map(&out, 65536), "\xdf\x00\x01\x00\x00");
	WRITES(msgpack_array(&out, 15), "\x9f");
	WRITES(msgpack_array(&out, 16), "\xdc\x00\x10");
	WRITES(msgpack_text(&out, "abc"), "\xa3"
					  "abc");
	WRITES(msgpack_text(&out, "a\xff"), "\xa4"
					    "a\xef\xbf\xbd");
	WRITES(msgpack_text(&out, "12345678901234567890123456789012"),
	       "\xd9\x20"
	       "12345678901234567890123456789012");
}

static const char *tokens_of(const char *bytes, size_t length, struct proton_error *err)
{
	struct msgpack_reader reader;
	char *copy = malloc(length ? length : 1); /* no byte after it, for AddressSanitizer */

	memcpy(copy, bytes, length);
	msgpack_reader_init(&reader, copy, length);
	const char *text = tokens_text(&reader.source);
	if (err && reader.source.failure)
		reader.source.error(&reader.source, err);
	msgpack_reader_fini(&reader);
	free(copy);
	return text;
}

#define TOKENS(literal) tokens_of(literal, sizeof(literal) - 1, NULL)

TEST(every_type_is_read)
{
	CHECK_STR(TOKENS("\x93\x01\xff\xc0"), "[ 1 -1 null ] end");
	CHECK_STR(TOKENS("\x82\xa1"
			 "a\xc3\xa1"
			 "b\x90"),
		  "{ k:a true k:b [ ] } end");
	CHECK_STR(TOKENS("\xdc\x00\x04\xcc\xff\xcd\xff\xff\xce\xff\xff\xff\xff"
			 "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
		  "[ 255 65535 4294967295 18446744073709551615u ] end");
	CHECK_STR(TOKENS("\x94\xd0\x80\xd1\x80\x00\xd2\x80\x00\x00\x00"
			 "\xd3\x80\x00\x00\x00\x00\x00\x00\x00"),
		  "[ -128 -32768 -2147483648 -9223372036854775808 ] end");
	CHECK_STR(TOKENS("\x92\xca\x3f\xc0\x00\x00\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00"),
		  "[ 1.5d 1.5d ] end");
	CHECK_STR(TOKENS("\x95\xd9\x01x\xda\x00\x01y\xdb\x00\x00\x00\x01z\xc4\x01w\xa0"),
		  "[ \"x\" \"y\" \"z\" \"w\" \"\" ] end");
	CHECK_STR(TOKENS("\x94\xd4\x05\x00\xd6\x05\x00\x00\x00\x00\xc7\x03\x05\x00\x00\x00\xc2"),
		  "[ null null null false ] end");
	CHECK_STR(TOKENS("\xdf\x00\x00\x00\x01\xa1k\xdd\x00\x00\x00\x01\x81\xa0\x05"),
		  "{ k:k [ { k: 5 } ] } end");
	CHECK_STR(TOKENS("\xa3"
			 "a\xff"
			 "b"),
		  "\"a\xef\xbf\xbd"
		  "b\" end");
}

TEST(bad_bytes_are_refused_with_their_place)
{
	struct proton_error err;

	CHECK_STR(tokens_of("\x91\xc1", 2, &err), "[ error");
	CHECK_STR(err.text, "byte 2: invalid MessagePack byte");
	CHECK_STR(tokens_of("\x81\x01\x02", 3, &err), "{ error");
	CHECK_STR(err.text, "byte 2: a map key is not a string");
	CHECK_STR(tokens_of("\x01\x02", 2, &err), "1 error");
	CHECK_STR(err.text, "byte 1: unexpected data after the end");
	CHECK_STR(tokens_of("\xdf\xff\xff\xff\xff\xa1", 6, &err), "{ error");
	CHECK_STR(err.text, "byte 6: unexpected end of input");
	CHECK_STR(tokens_of("\xdb\xff\xff\xff\xff"
			    "a",
			    6, &err),
		  "error");
	CHECK_STR(tokens_of("\xc9\xff\xff\xff\xff", 5, &err), "error");
	CHECK_STR(tokens_of("", 0, &err), "error");
}

TEST(every_truncation_is_an_early_end)
{
	static const char whole[] = "\x93\x82\xa1"
				    "a\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00\xa1"
				    "b\xcd\x01\x02"
				    "\xd9\x02xy\x92\xc3\xd0\x80";

	CHECK_STR(TOKENS(whole), "[ { k:a 1.5d k:b 258 } \"xy\" [ true -128 ] ] end");
	for (size_t length = 0; length + 1 < sizeof(whole); length++) {
		struct msgpack_reader reader;
		struct token token;
		enum token_kind kind;
		char *copy = malloc(length ? length : 1);

		memcpy(copy, whole, length);
		msgpack_reader_init(&reader, copy, length);
		while ((kind = token_next(&reader.source, &token)) != TOKEN_ERROR)
			CHECK_NE(kind, TOKEN_END);
		CHECK(reader.source.is_truncated);
		msgpack_reader_fini(&reader);
		free(copy);
	}
}

TEST(nesting_is_limited)
{
	size_t length = TOKEN_DEPTH_MAX + 1;
	char *bytes = malloc(length);
	struct msgpack_reader reader;
	struct token token;

	memset(bytes, 0x91, length);
	msgpack_reader_init(&reader, bytes, length);
	while (token_next(&reader.source, &token) != TOKEN_ERROR)
		CHECK_EQ(token.kind, TOKEN_ARRAY);
	CHECK(!reader.source.is_truncated);
	CHECK_EQ(reader.depth, TOKEN_DEPTH_MAX);
	msgpack_reader_fini(&reader);
	free(bytes);
}
