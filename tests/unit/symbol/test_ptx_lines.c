/* symbol/ptx_lines: .loc, its comments, and files; test_line_table.py has PTX of Triton. */
#include "unit/tap.h"

#include "base/buf.h"
#include "symbol/ptx_lines.h"

static struct line_frames frames;
static struct ptx_lines ptx;

static void read_text(const char *text)
{
	CHECK_EQ(line_frames_init(&frames, strlen(text), NULL), PROTON_OK);
	CHECK_EQ(ptx_lines_read(&ptx, text, strlen(text), &frames), PROTON_OK);
}

static void forget(void)
{
	ptx_lines_fini(&ptx);
	line_frames_fini(&frames);
}

/* "FILE:LINE:COLUMN < ..." */
static const char *chain(uint32_t frame)
{
	static char text[512];
	size_t length = 0;

	text[0] = '\0';
	for (; frame; frame = frames.frames[frame - 1].caller) {
		const struct line_frame *at = &frames.frames[frame - 1];

		length += (size_t)snprintf(text + length, sizeof(text) - length,
					   "%s%s:%" PRIu32 ":%" PRIu32, length ? " < " : "",
					   at->file, at->line, at->column);
	}
	return text;
}

/* The chain of line `line` of file `path`, as for an instruction without a line of PTX. */
static const char *chain_of(const char *path, uint32_t line)
{
	const char *file = line_frames_text(&frames, path, strlen(path));

	return chain(ptx_lines_of(&ptx, file, line, &frames));
}

TEST(an_instruction_has_the_location_before_it)
{
	read_text(".visible .entry k(\n"
		  "{\n"
		  "\t.loc\t1 19 3   // k.py:19:3\n"
		  "\tld.param.b32 %r1, [p];\n"
		  "$L__tmp0:\n"
		  ".loc 2 5 7 // b.py:5:7 @[ k.py:10:16 @[ main.py:3 ] ]\n"
		  "\tadd.s32 %r1, %r1, 1;\n"
		  "}\n"
		  ".func far(\n"
		  "\tret;\n"
		  "\t.file\t1 \"/src/k.py\"\n"
		  "\t.file\t2 \"/lib/b.py\", 1700000000, 12\n");
	CHECK_EQ(ptx_lines_at(&ptx, 0), 0);
	CHECK_EQ(ptx_lines_at(&ptx, 2), 0);
	CHECK_STR(chain(ptx_lines_at(&ptx, 3)), "/src/k.py:19:3");
	CHECK_STR(chain(ptx_lines_at(&ptx, 5)), "/src/k.py:19:3");
	/* No column is known of a call, and no path of a file without instructions. */
	CHECK_STR(chain(ptx_lines_at(&ptx, 8)), "/lib/b.py:5:7 < /src/k.py:10:16 < main.py:3:0");
	CHECK_EQ(ptx_lines_at(&ptx, 10), 0); /* the next function */
	forget();
}

TEST(a_source_line_has_calls_if_all_its_instructions_have_the_same)
{
	read_text(".file 1 \"/src/k.py\"\n"
		  ".loc 1 5 1 // k.py:5:1 @[ k.py:20:2 ]\n"
		  ".loc 1 5 9 // k.py:5:9 @[ k.py:20:2 ]\n"
		  ".loc 1 6 1 // k.py:6:1 @[ k.py:20:2 ]\n"
		  ".loc 1 6 1 // k.py:6:1 @[ k.py:21:2 ]\n"
		  ".loc 1 7 4 // k.py:7:4 @[ k.py:20:2 ]\n"
		  ".loc 1 7 4 // k.py:7:4 @[ k.py:20:2 ]\n");
	CHECK_STR(chain_of("/src/k.py", 5), "/src/k.py:5:0 < /src/k.py:20:2");
	CHECK_STR(chain_of("/src/k.py", 6), "");
	CHECK_STR(chain_of("/src/k.py", 7), "/src/k.py:7:4 < /src/k.py:20:2");
	CHECK_STR(chain_of("/src/k.py", 8), "");
	CHECK_STR(chain_of("/other/k.py", 5), "");
	forget();
}

TEST(calls_are_unknown_without_a_comment_that_can_be_parsed)
{
	static const char *const locations[] = {
		".loc 1 5 1",
		".loc 1 5 1, function_name $L__info_string0, inlined_at 1 6 1 // k.py:5:1",
		".loc 1 5 1 // k.py:5:1 @[ k.py:20:2",
		".loc 1 5 1 // k.py:5:1 @[ k.py ]",
		".loc 1 5 1 // k.py:5:1 @[ k.py:1:99999999999 ]",
		".loc 3 5 1 // k.py:5:1",
		".loc 4294967296 5 1 // k.py:5:1",
	};
	char text[256];

	for (size_t i = 0; i < sizeof(locations) / sizeof(locations[0]); i++) {
		snprintf(text, sizeof(text), ".file 1 \"/src/k.py\"\n%s\nret;", locations[i]);
		read_text(text);
		CHECK_STR(chain(ptx_lines_at(&ptx, 3)), "");
		CHECK_STR(chain_of("/src/k.py", 5), "");
		forget();
	}
}

TEST(a_name_of_several_files_stays_a_name)
{
	read_text(".file 1 \"/a/k.py\"\n"
		  ".file 2 \"/b/k.py\"\n"
		  ".file 3 \"/b/odd k.py\"\n"
		  ".file 4 \"k.cu\"\n"
		  ".loc 1 5 1 // k.py:5:1 @[ k.py:6:1 @[ odd k.py:7:1 @[ k.cu:8:1 ] ] ]\n");
	CHECK_STR(chain(ptx_lines_at(&ptx, 5)),
		  "/a/k.py:5:1 < k.py:6:1 < /b/odd k.py:7:1 < k.cu:8:1");
	forget();
}

TEST(calls_are_nested_to_a_limit)
{
	struct out text;

	for (int count = 60; count <= 70; count += 10) {
		out_init(&text, -1);
		out_text(&text, ".file 1 \"/k.py\"\n.loc 1 1 1 // k.py:1:1");
		for (int i = 0; i < count; i++)
			out_text(&text, " @[ k.py:2:2");
		for (int i = 0; i < count; i++)
			out_text(&text, " ]");
		out_byte(&text, '\0');
		read_text(text.bytes);
		CHECK_EQ(ptx_lines_at(&ptx, 2) != 0, count == 60);
		forget();
		out_fini(&text);
	}
}
