/* --source: source text and instructions of a profile that contains them. */
#include "unit/tap.h"

#include "base/buf.h"
#include "model/samples.h"
#include "unit/symbol/cubin_build.h"
#include "unit/viewer_build.h"
#include "viewer/print/printers.h"

#define CODE_BYTES 0x40

/* A cubin of function "mm": 0x00 is line 10 of /src/mm.py, 0x20 line 12. */
static void build_cubin(struct cubin_build *build)
{
	static const char code[CODE_BYTES];
	struct out lines, relocations;
	uint32_t section, symbol, length;

	out_init(&lines, -1);
	out_init(&relocations, -1);
	put(&lines, 0, 4);
	put(&lines, 2, 2);
	size_t header = lines.length;
	put(&lines, 0, 4);
	out_bytes(&lines, "\1\1\373\16\12\0\1\1\1\1\0\0\0\1", 14);
	out_bytes(&lines, "/src\0\0mm.py\0\1\0\0\0", 16);
	length = (uint32_t)(lines.length - header - 4);
	memcpy(lines.bytes + header, &length, sizeof(length));
	out_bytes(&lines, "\0\11\2", 3);
	header = lines.length;
	put(&lines, 0, 8);
	out_bytes(&lines, "\3\11\1", 3);     /* 9 lines further, a row */
	out_bytes(&lines, "\2\40\3\2\1", 5); /* 0x20 bytes and 2 lines further */
	out_bytes(&lines, "\2\40\0\1\1", 5); /* the end */
	length = (uint32_t)(lines.length - 4);
	memcpy(lines.bytes, &length, sizeof(length));
	build_begin(build);
	section = build_section(build, ".text.mm", SHT_PROGBITS, 0, code, CODE_BYTES);
	symbol = build_function(build, "mm", section, 0, CODE_BYTES);
	build_section(build, ".debug_line", SHT_PROGBITS, 0, lines.bytes, lines.length);
	put(&relocations, header, 8);
	put(&relocations, (uint64_t)symbol << 32 | 2, 8);
	build_section(build, ".rel.debug_line", SHT_REL, 0, relocations.bytes, relocations.length);
	build_end(build);
	out_fini(&lines);
	out_fini(&relocations);
}

static void add(struct profile *profile, uint32_t node, const char *name, int64_t value)
{
	uint32_t metric = profile_metric(profile, profile_string(profile, name, strlen(name)),
					 PROTON_METRIC_INT64, 0);

	profile_value(profile, node, metric)->as.int64 = value;
}

static const char text_of_file[] = "# 1\n# 2\n# 3\n# 4\n# 5\n# 6\n# 7\n# 8\n@triton.jit\n"
				   "def mm():\n\tx = 1\n\ty = load(\033[2J)\n# 13\n# 14\n";

static void free_profile(struct profile *profile, struct cubin_build *cubin)
{
	profile->samples = NULL; /* it is static */
	profile_free(profile);
	build_fini(cubin);
}

/* A kernel with samples at lines 10 and 12, and the text of the file. */
static struct profile *make_profile(struct cubin_build *cubin)
{
	static struct profile_code_object cubins[1];
	static struct profile_function functions[1];
	static struct profile_source sources[1];
	static struct profile_pc pcs[3] = {{0x00, 0, 3, 0}, {0x20, 0, 5, 0}, {0x20, 1, 2, 0}};
	static uint32_t reasons[2], files[SAMPLES_FILES_MAX];
	static struct profile_samples samples;
	struct profile *profile = profile_new();
	uint32_t kernel = build_node(profile, 0, "mm");
	uint32_t first = build_source(profile, kernel, "/src/mm.py", 10, "mm");
	uint32_t second = build_source(profile, kernel, "/src/mm.py", 12, "mm");

	add(profile, first, "num_samples", 3);
	add(profile, first, "stalled_wait", 3);
	add(profile, second, "num_samples", 7);
	add(profile, second, "stalled_wait", 5);
	add(profile, second, "stalled_long_scoreboard", 2);
	build_cubin(cubin);
	cubins[0] = (struct profile_code_object){.crc = 1,
						 .bytes = (const uint8_t *)cubin->bytes.bytes,
						 .length = cubin->bytes.length};
	functions[0] = (struct profile_function){.name = profile_add_text(profile, "mm"),
						 .code_object = 1,
						 .samples = 10,
						 .pc_count = 3};
	sources[0] = (struct profile_source){.path = profile_add_text(profile, "/src/mm.py"),
					     .text = text_of_file,
					     .length = sizeof(text_of_file) - 1};
	reasons[0] = profile_add_text(profile, "stalled_wait");
	reasons[1] = profile_add_text(profile, "stalled_long_scoreboard");
	samples = (struct profile_samples){
		.code_objects = cubins,
		.functions = functions,
		.pcs = pcs,
		.reasons = reasons,
		.sources = sources,
		.files = files,
		.code_object_count = 1,
		.function_count = 1,
		.pc_count = 3,
		.reason_count = 2,
		.source_count = 1,
	};
	profile->samples = &samples;
	return profile;
}

/* The report as text; `text` is static. */
static const char *report(struct profile *profile, bool wants_sass)
{
	static char text[4096];
	struct options options = {.query = {.sass = wants_sass}, .style = {.names = NAMES_RAW}};
	struct source_report report;
	uint8_t *state = calloc(profile->node_count, 1);
	struct out out;

	CHECK_DONE(source_report_init(&report, profile, state, NULL, &err));
	out_init(&out, -1);
	source_write(&report, &(struct report){.out = &out, .options = &options});
	CHECK_LT(out.length, sizeof(text));
	memcpy(text, out.bytes, out.length);
	text[out.length] = '\0';
	out_fini(&out);
	source_report_fini(&report);
	free(state);
	return text;
}

TEST(lines_are_shown_with_their_text_and_a_few_around_them)
{
	struct cubin_build cubin;
	struct profile *profile = make_profile(&cubin);

	CHECK_STR(report(profile, false),
		  "mm: 10 samples, 100.00 %\n"
		  "wait 80 %: the latency of arithmetic at mm.py:12\n"
		  "long_scoreboard 20 %: global loads at mm.py:12\n"
		  "\n"
		  "   samples       %  stall reasons                      line\n"
		  "\n"
		  "/src/mm.py\n"
		  "                                                          7  # 7\n"
		  "                                                          8  # 8\n"
		  "                                                          9  @triton.jit\n"
		  "         3   30.00  wait 100 %                           10  def mm():\n"
		  "                                                         11      x = 1\n"
		  "         7   70.00  wait 71 %, long_scoreboard 29 %      12      y = "
		  "load(\\x1b[2J)\n"
		  "                                                         13  # 13\n"
		  "                                                         14  # 14\n");
	free_profile(profile, &cubin);
}

TEST(missing_text_and_lines_are_explained)
{
	struct cubin_build cubin;
	struct profile *profile = make_profile(&cubin);

	profile->samples->sources[0].length = 0;
	profile->samples->sources[0].is_left_out = true;
	add(profile, build_node(profile, 0, "far"), "num_samples", 4);
	const char *text = report(profile, false);
	CHECK(strstr(text, "/src/mm.py: the file was too large for its text to be kept\n"));
	CHECK(strstr(text, "far: 4 samples, 28.57 %\n"));
	CHECK(strstr(text, "no source lines: its machine code has no line information "
			   "(-lineinfo), or was not recorded\n"));
	profile->samples->functions[0].name = profile_add_text(profile, "far");
	CHECK(strstr(report(profile, false), "no source lines: its machine code has no line "
					     "information; compile it with -lineinfo\n"));
	profile->samples->code_objects[0].length = 0;
	CHECK(strstr(report(profile, false), "no source lines: its machine code was not recorded; "
					     "start profiling before it is loaded\n"));
	profile->samples->code_objects[0].is_left_out = true;
	CHECK(strstr(report(profile, false),
		     "no source lines: its machine code was too large to be kept\n"));
	free_profile(profile, &cubin);
}

/* Tabs, carriage returns, and a last line without its end. */
TEST(text_with_other_line_ends_is_shown)
{
	static const char content[] = "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n\t9\r\n1\t0\r\n"
				      "11\r\n\xc3\xa4\xff";
	struct cubin_build cubin;
	struct profile *profile = make_profile(&cubin);

	profile->samples->sources[0].text = content;
	profile->samples->sources[0].length = sizeof(content) - 1;
	const char *text = report(profile, false);
	CHECK(strstr(text, "      9      9\n"));
	CHECK(strstr(text, "     10  1   0\n"));
	CHECK(strstr(text, "     12  \xc3\xa4\\xff\n"));
	CHECK(!strchr(text, '\r'));
	free_profile(profile, &cubin);
}

TEST(instructions_are_shown_below_their_lines)
{
	struct cubin_build cubin;
	struct profile *profile = make_profile(&cubin);

	/* The file is not a program: instructions have offsets only. */
	setenv("PROTON_NVDISASM_PATH", "/dev/null", 1);
	const char *text = report(profile, true);
	CHECK(strstr(text,
		     "def mm():\n"
		     "         3   30.00  wait 100 %                                 0x0000\n"));
	CHECK(strstr(text,
		     "load(\\x1b[2J)\n"
		     "         7   70.00  wait 71 %, long_scoreboard 29 %            0x0020\n"));
	free_profile(profile, &cubin);
}

TEST(long_gaps_between_lines_are_left_out)
{
	struct cubin_build cubin;
	struct profile *profile = make_profile(&cubin);
	uint32_t kernel = profile->nodes[0].first_child;
	uint32_t early = build_source(profile, kernel, "/src/mm.py", 1, "mm");
	uint32_t outside = build_source(profile, kernel, "/src/mm.py", 99, "mm");

	add(profile, early, "num_samples", 1);
	add(profile, outside, "num_samples", 1);
	const char *text = report(profile, false);
	CHECK(strstr(text, "     1  # 1\n"));
	CHECK(strstr(text, "     4  # 4\n"));
	CHECK(strstr(text, "     ...\n"));
	CHECK(!strstr(text, "# 5"));
	CHECK(strstr(text, "     7  # 7\n"));
	CHECK(strstr(text, "    99\n")); /* the file has no such line */
	free_profile(profile, &cubin);
}
