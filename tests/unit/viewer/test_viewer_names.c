/* viewer/names and viewer/text: frame formats; names escaped for a terminal. */
#include "unit/tap.h"

#include <locale.h>

#include "unit/viewer_build.h"
#include "viewer/print/printable_text.h"
#include "viewer/query/frame_names.h"

static char written[512];

static const char *take(struct out *out)
{
	CHECK(out->length < sizeof(written));
	memcpy(written, out->bytes ? out->bytes : "", out->length);
	written[out->length] = '\0';
	out_fini(out);
	return written;
}

static const char *name_of(struct profile *profile, uint32_t node, enum name_format format)
{
	struct out out;

	out_init(&out, -1);
	name_write(&out, profile, profile->nodes[node].frame, format);
	return take(&out);
}

TEST(a_source_frame_has_four_formats)
{
	struct profile *profile = profile_new();
	uint32_t node = build_source(profile, 0, "/home/user/projects/example/test.py", 1, "foo");

	CHECK_STR(name_of(profile, node, NAME_FULL), "/home/user/projects/example/test.py:1@foo");
	CHECK_STR(name_of(profile, node, NAME_FILE_FUNCTION_LINE), "test.py:1@foo");
	CHECK_STR(name_of(profile, node, NAME_FUNCTION_LINE), "1@foo");
	CHECK_STR(name_of(profile, node, NAME_FILE_FUNCTION), "test.py@foo");
	profile_free(profile);
}

TEST(a_name_that_looks_like_a_source_frame_is_one)
{
	struct profile *profile = profile_new();
	uint32_t node = build_node(profile, 0, "a/b:c/d.py:12@f@g:3@h");

	CHECK_STR(name_of(profile, node, NAME_FULL), "a/b:c/d.py:12@f@g:3@h");
	CHECK_STR(name_of(profile, node, NAME_FILE_FUNCTION_LINE), "d.py:12@f@g:3@h");
	CHECK_STR(name_of(profile, node, NAME_FUNCTION_LINE), "12@f@g:3@h");
	CHECK_STR(name_of(profile, node, NAME_FILE_FUNCTION), "d.py@f@g:3@h");
	profile_free(profile);
}

TEST(other_names_stay_whole_in_every_format)
{
	static const char *const names[] = {
		"void at::native::kernel<int, 2>(char*)",
		"a/b",
		"user@host",
		":12@f",
		"x:@f",
		"x:12",
		"",
	};
	struct profile *profile = profile_new();

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		uint32_t node = build_node(profile, 0, names[i]);

		for (enum name_format f = NAME_FULL; f <= NAME_FILE_FUNCTION; f++)
			CHECK_STR(name_of(profile, node, f), names[i]);
	}
	CHECK_STR(name_of(profile, 0, NAME_FUNCTION_LINE), "ROOT");
	profile_free(profile);
}

static const char *clean(const char *text)
{
	struct out out;

	out_init(&out, -1);
	text_clean(&out, text, strlen(text));
	return take(&out);
}

TEST(cleaning_keeps_text_and_shows_control_characters)
{
	CHECK_STR(clean("kernel<int>(réduce, 日本)"), "kernel<int>(réduce, 日本)");
	CHECK_STR(clean("a\033[31mb\nc\td\x7f"), "a\\x1b[31mb\\x0ac\\x09d\\x7f");
	CHECK_STR(clean("\xc2\x9b"
			"31m"),
		  "\\xc2\\x9b31m");                              /* CSI as one character */
	CHECK_STR(clean("x\xe2\x80\xaey"), "x\\xe2\\x80\\xaey"); /* right-to-left override */
	CHECK_STR(clean("\xff\xc3(\xed\xa0\x80"), "\\xff\\xc3(\\xed\\xa0\\x80");
	CHECK_STR(clean(""), "");
}

static const char *shorten(const char *text, size_t columns, bool keep_end)
{
	struct out out;

	out_init(&out, -1);
	text_shorten(&out, text, strlen(text), columns, "..", keep_end);
	return take(&out);
}

TEST(shortening_takes_out_the_middle_or_the_beginning)
{
	CHECK_STR(shorten("abcdefghij", 10, false), "abcdefghij");
	CHECK_STR(shorten("abcdefghij", 9, false), "abcd..hij");
	CHECK_STR(shorten("abcdefghij", 8, false), "abc..hij");
	CHECK_STR(shorten("abcdefghij", 8, true), "..efghij");
	CHECK_STR(shorten("abcdefghij", 2, false), "..");
	CHECK_STR(shorten("abcdefghij", 0, false), "..");
}

TEST(shortening_counts_columns_not_bytes)
{
	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		SKIP("no C.UTF-8 locale");
	CHECK_EQ(text_columns("日本", 6), 4);
	CHECK_STR(shorten("日本語日本語", 12, false), "日本語日本語");
	CHECK_STR(shorten("日本語日本語", 8, false), "日..語"); /* 3 columns hold one character */
	CHECK_STR(shorten("éééééé", 5, true), "..ééé");
}
