/* format/protobuf_write and format/gzip_write: bytes of the specifications, nesting, no memory. */
#include "unit/tap.h"

#include "format/gzip_write.h"
#include "format/protobuf_write.h"

static struct out collected;
static struct protobuf_writer writer;

static void begin(void)
{
	out_init(&collected, -1);
	writer = (struct protobuf_writer){.out = &collected};
}

static void check_is(const char *expected, size_t length)
{
	CHECK_EQ(collected.errnum, 0);
	CHECK_EQ(collected.length, length);
	CHECK_MEM(collected.bytes, expected, length);
	out_fini(&collected);
}

#define WRITES(call, literal)                                                                      \
	do {                                                                                       \
		begin();                                                                           \
		call;                                                                              \
		check_is(literal, sizeof(literal) - 1);                                            \
	} while (0)

TEST(a_varint_has_seven_bits_in_a_byte)
{
	WRITES(protobuf_uint64(&writer, 1, 0), "\x08\x00");
	WRITES(protobuf_uint64(&writer, 1, 127), "\x08\x7f");
	WRITES(protobuf_uint64(&writer, 1, 128), "\x08\x80\x01");
	WRITES(protobuf_uint64(&writer, 1, 150), "\x08\x96\x01"); /* the specification's example */
	WRITES(protobuf_uint64(&writer, 1, UINT64_MAX),
	       "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	WRITES(protobuf_uint64(&writer, 16, 1), "\x80\x01\x01");
	WRITES(protobuf_uint64(&writer, 536870911, 1), "\xf8\xff\xff\xff\x0f\x01");
}

TEST(negative_numbers_are_sign_extended_or_in_zigzag)
{
	WRITES(protobuf_int64(&writer, 1, -2), "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST(fixed_fields_are_little_endian)
{
	WRITES(protobuf_double(&writer, 2, 1.5), "\x11\0\0\0\0\0\0\xf8\x3f");
}

TEST(texts_may_hold_any_byte)
{
	WRITES(protobuf_text(&writer, 2, "testing", 7), "\x12\x07testing");
	WRITES(protobuf_text(&writer, 2, "", 0), "\x12\x00");
	WRITES(protobuf_text(&writer, 2,
			     "a\xff"
			     "b",
			     3),
	       "\x12\x05"
	       "a\xef\xbf\xbd"
	       "b");
	WRITES(protobuf_bytes(&writer, 2, "a\0b", 3), "\x12\x03"
						      "a\0b");
}

TEST(packed_numbers_are_one_field)
{
	static const uint64_t values[] = {3, 270, 86942};

	WRITES(protobuf_packed_uint64(&writer, 6, values, 3), "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
	WRITES(protobuf_packed_uint64(&writer, 6, values, 0), "");
}

TEST(messages_nest)
{
	begin();
	protobuf_begin(&writer, 3);
	protobuf_uint64(&writer, 1, 150);
	protobuf_begin(&writer, 4);
	protobuf_end(&writer);
	protobuf_begin(&writer, 4);
	protobuf_text(&writer, 1, "in", 2);
	protobuf_end(&writer);
	protobuf_end(&writer);
	protobuf_uint64(&writer, 1, 1);
	check_is("\x1a\x0b\x08\x96\x01\x22\x00\x22\x04\x0a\x02in\x08\x01", 15);
}

/* The length of each level takes another number of bytes. */
TEST(lengths_move_their_content)
{
	static const size_t sizes[] = {0, 124, 125, 126, 127, 128, 16380, 16384, 2097152};
	char *text = calloc(1, 2097152);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const unsigned char *p;
		size_t lengths[3];

		memset(text, 'x', sizes[i]);
		begin();
		for (int level = 0; level < 3; level++)
			protobuf_begin(&writer, 1);
		protobuf_bytes(&writer, 1, text, sizes[i]);
		for (int level = 0; level < 3; level++)
			protobuf_end(&writer);
		p = (const unsigned char *)collected.bytes;
		for (int level = 0; level < 3; level++) {
			size_t length = 0;
			int shift = 0;

			CHECK_EQ(*p++, 0x0a);
			do {
				length |= (size_t)(*p & 0x7f) << shift;
				shift += 7;
			} while (*p++ & 0x80);
			lengths[level] = length;
			CHECK_EQ((size_t)(p - (const unsigned char *)collected.bytes) + length,
				 collected.length);
		}
		CHECK_LT(lengths[2], lengths[1]);
		CHECK_MEM(collected.bytes + collected.length - sizes[i], text, sizes[i]);
		out_fini(&collected);
	}
	free(text);
}

TEST(no_memory_is_sticky)
{
	begin();
	protobuf_begin(&writer, 1);
	out_fail(&collected, ENOMEM);
	protobuf_text(&writer, 1, "text", 4);
	protobuf_begin(&writer, 2);
	protobuf_end(&writer);
	protobuf_end(&writer);
	CHECK_EQ(out_finish(&collected, NULL), PROTON_E_NOMEM);
	out_fini(&collected);
}

TEST(the_check_sum_is_that_of_the_standard)
{
	CHECK_U64(crc32_of(0, "123456789", 9), 0xcbf43926); /* the usual check value */
	CHECK_U64(crc32_of(crc32_of(0, "1234", 4), "56789", 5), 0xcbf43926);
	CHECK_U64(crc32_of(0, "", 0), 0);
}

/* tests/python/test_deflate.py reads what is between them. */
TEST(a_gzip_file_has_a_head_and_a_sum)
{
	struct gzip_writer gzip;

	out_init(&collected, -1);
	gzip_begin(&gzip, &collected);
	gzip_bytes(&gzip, "12345", 5);
	gzip_bytes(&gzip, "6789", 4);
	gzip_end(&gzip);
	CHECK(collected.length > 18);
	CHECK_MEM(collected.bytes, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
	CHECK_MEM(collected.bytes + collected.length - 8, "\x26\x39\xf4\xcb\x09\0\0\0", 8);
	out_fini(&collected);
}
