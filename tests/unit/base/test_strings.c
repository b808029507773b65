/* base/strings: interned strings against a naive list of them. */
#include "unit/tap.h"

#include "base/strings.h"

#define POOL_BYTES (64u << 20)

static void start(struct strings *strings, size_t bytes)
{
	CHECK_DONE(strings_init(strings, bytes, &err));
}

TEST(the_empty_string_is_zero)
{
	struct strings strings;

	start(&strings, POOL_BYTES);
	CHECK_EQ(strings_add(&strings, "", 0), 0);
	CHECK_EQ(strings_find(&strings, "", 0), 0);
	CHECK_STR(string_text(&strings, 0), "");
	CHECK_EQ(string_length(&strings, 0), 0);
	strings_fini(&strings);
}

TEST(the_same_bytes_have_one_id)
{
	struct strings strings;

	start(&strings, POOL_BYTES);
	CHECK_EQ(strings_find(&strings, "kernel", 6), STRING_NONE);
	uint32_t id = strings_add(&strings, "kernel", 6);
	CHECK_NE(id, STRING_NONE);
	CHECK_EQ(strings_add(&strings, "kernels" /* cut */, 6), id);
	CHECK_EQ(strings_find(&strings, "kernel", 6), id);
	CHECK_NE(strings_add(&strings, "kernels", 7), id);
	CHECK_NE(strings_add(&strings, "Kernel", 6), id);
	CHECK_STR(string_text(&strings, id), "kernel");
	CHECK_EQ(strings.index.count, 4);
	strings_fini(&strings);
}

TEST(bytes_of_any_kind_are_kept)
{
	static const char bytes[] = "a\0b\xff\n\0";
	struct strings strings;

	start(&strings, POOL_BYTES);
	uint32_t id = strings_add(&strings, bytes, sizeof(bytes));
	CHECK_EQ(string_length(&strings, id), sizeof(bytes));
	CHECK_MEM(string_text(&strings, id), bytes, sizeof(bytes));
	CHECK_NE(strings_add(&strings, bytes, sizeof(bytes) - 1), id);
	strings_fini(&strings);
}

TEST(an_entry_is_laid_out_as_the_file_wants_it)
{
	struct strings strings;

	start(&strings, POOL_BYTES);
	CHECK_EQ(strings_add(&strings, "abc", 3), 1);
	CHECK_EQ(strings_add(&strings, "abcd", 4), 2); /* 4 + 3 + 1 filled 8 exactly */
	CHECK_EQ(strings_add(&strings, "x", 1), 4);
	CHECK_U64(strings.used, 5 * 8);
	const unsigned char *pool = strings.pool.base;
	CHECK_MEM(pool, "\0\0\0\0\0\0\0\0\3\0\0\0abc\0\4\0\0\0abcd\0\0\0\0\0\0\0\0\1\0\0\0x\0\0\0",
		  40);
	strings_fini(&strings);
}

struct naive {
	char text[24];
	size_t length;
	uint32_t id;
};

/* Short texts of few letters: many are equal, and many have a common prefix. */
TEST(many_strings_agree_with_a_naive_list)
{
	static struct naive list[4000];
	struct strings strings;
	size_t count = 0;
	uint64_t seed = 42;

	start(&strings, POOL_BYTES);
	for (int round = 0; round < 12000; round++) {
		struct naive *entry = NULL;
		char text[24];
		size_t length;
		uint32_t id;

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		length = 1 + (seed >> 60);
		for (size_t i = 0; i < length; i++)
			text[i] = (char)('a' + (seed >> (i * 3) & 3));
		for (size_t i = 0; i < count && !entry; i++)
			if (list[i].length == length && memcmp(list[i].text, text, length) == 0)
				entry = &list[i];
		CHECK_EQ(strings_find(&strings, text, length), entry ? entry->id : STRING_NONE);
		if (!entry && count == 4000)
			continue;
		id = strings_add(&strings, text, length);
		CHECK_NE(id, STRING_NONE);
		if (!entry) {
			entry = &list[count++];
			memcpy(entry->text, text, length);
			entry->length = length;
			entry->id = id;
		}
		CHECK_EQ(id, entry->id);
	}
	CHECK_LT(1000, count); /* the table has grown several times */
	CHECK_EQ(strings.index.count, count + 1);
	for (size_t i = 0; i < count; i++) {
		CHECK_EQ(string_length(&strings, list[i].id), list[i].length);
		CHECK_MEM(string_text(&strings, list[i].id), list[i].text, list[i].length);
		for (size_t j = 0; j < i; j++)
			CHECK(list[i].id != list[j].id);
	}
	strings_fini(&strings);
}

TEST(text_never_moves)
{
	struct strings strings;
	const char *first;
	char text[32];

	start(&strings, POOL_BYTES);
	first = string_text(&strings, strings_add(&strings, "first", 5));
	for (int i = 0; i < 100000; i++)
		strings_add(&strings, text, (size_t)snprintf(text, sizeof(text), "text %d", i));
	CHECK_PTR(string_text(&strings, strings_find(&strings, "first", 5)), first);
	CHECK_STR(first, "first");
	strings_fini(&strings);
}

TEST(a_full_pool_takes_no_more_and_keeps_the_rest)
{
	struct strings strings;
	char text[32];
	uint32_t added = 0;
	uint32_t id;

	start(&strings, 1 << 16);
	for (;;) {
		id = strings_add(&strings, text,
				 (size_t)snprintf(text, sizeof(text), "text number %u", added));
		if (id == STRING_NONE)
			break;
		added++;
		CHECK_LT(added, 10000);
	}
	CHECK_LE(1 << 16, (uint64_t)added * 32);
	CHECK_LE(strings.used, strings.pool.bytes);
	for (uint32_t i = 0; i < added; i++) {
		size_t length = (size_t)snprintf(text, sizeof(text), "text number %u", i);

		id = strings_add(&strings, text, length);
		CHECK_NE(id, STRING_NONE);
		CHECK_STR(string_text(&strings, id), text);
	}
	strings_fini(&strings);
}

TEST(a_text_that_is_too_long_is_cut)
{
	size_t length = STRING_MAX_BYTES + 1000;
	char *text = malloc(length);
	struct strings strings;

	memset(text, 'x', length);
	start(&strings, POOL_BYTES);
	uint32_t id = strings_add(&strings, text, length);
	CHECK_NE(id, STRING_NONE);
	CHECK_EQ(string_length(&strings, id), STRING_MAX_BYTES);
	CHECK_EQ(strings_add(&strings, text, STRING_MAX_BYTES), id);
	CHECK_EQ(strings_find(&strings, text, length), id);
	free(text);
	strings_fini(&strings);
}
