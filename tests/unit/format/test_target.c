/* format/target, format/recognize: names of outputs, and the files that exist there. */
#include "unit/recorded.h"

#include <limits.h>

#include "export/export.h"
#include "format/target.h"

static void check_stem(const char *name, const char *expected)
{
	char *stem;

	CHECK_DONE(target_stem(name, &stem, &err));
	CHECK_STR(stem, expected);
	free(stem);
}

TEST(suffixes_of_outputs_are_dropped_and_other_dots_kept)
{
	const struct export_format *format;
	char name[64];

	CHECK_EQ(chdir("/tmp"), 0);
	check_stem("x", "/tmp/x");
	check_stem("/tmp/x", "/tmp/x");
	check_stem("./x", "/tmp/./x");
	check_stem("run.v1.2", "/tmp/run.v1.2");
	check_stem("x.json", "/tmp/x.json");
	check_stem("x.hatchet.gz", "/tmp/x.hatchet.gz");
	check_stem("x.proton", "/tmp/x");
	check_stem("x.7.proton", "/tmp/x.7");
	check_stem("x.hatchet.hatchet", "/tmp/x.hatchet");
	check_stem(".hatchet", "/tmp/.hatchet");
	check_stem("..hatchet", "/tmp/..hatchet");
	check_stem("hatchet", "/tmp/hatchet");
	for (size_t i = 0; (format = export_format_at(i)); i++) {
		snprintf(name, sizeof(name), "a.b.%s", format->suffix);
		check_stem(name, "/tmp/a.b");
	}
}

TEST(names_that_cannot_be_outputs_are_refused)
{
	static const struct {
		const char *name, *why;
	} cases[] = {
		{".", "is a directory"},          {"..", "is a directory"},
		{"x/", "is a directory"},         {"/", "is a directory"},
		{"/tmp/.", "is a directory"},     {"/tmp/..", "is a directory"},
		{"no/x", "No such file"},         {"/dev/null", "is a device or a pipe"},
		{"/dev/stdout", "is a device"},   {"/dev/fd/1", "is a device"},
		{"/etc/passwd/x", "not a direc"}, {"/etc/passwd/x/y", "Not a direc"},
	};
	struct proton_error err;
	char *stem = NULL;
	char name[PATH_MAX + 8];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_NE(target_stem(cases[i].name, &stem, &err), PROTON_OK);
		CHECK_HAS(err.text, cases[i].why);
	}
	memset(name, 'x', sizeof(name));
	name[216] = '\0';
	CHECK_EQ(target_stem(name, &stem, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "too long: 216 bytes; the maximum is 215");
	name[216] = 'x';
	name[sizeof(name) - 1] = '\0';
	CHECK_EQ(target_stem(name, &stem, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "too long");
	CHECK_EQ(mkfifo(rec_path("pipe"), 0600), 0);
	CHECK_EQ(target_stem(rec_path("pipe"), &stem, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "is a device or a pipe");
	CHECK_PTR(stem, NULL);
}

TEST(the_longest_name_is_recorded_and_written_in_parts)
{
	char name[256], file[320];

	memset(name, 'x', 215);
	name[215] = '\0';
	int session = rec_start(name);
	rec_kernel("k");
	proton_phase_advance(session, NULL, NULL);
	rec_finalize(session, "hatchet_msgpack");
	snprintf(file, sizeof(file), "%s.part_0.hatchet_msgpack", name);
	CHECK(access(rec_dir(), F_OK) == 0);
	CHECK_EQ(chdir(rec_dir()), 0);
	CHECK_EQ(access(file, F_OK), 0);
}

#define RECOGNIZED(text) target_recognize(text, sizeof(text) - 1)

TEST(profiles_are_recognized_by_their_first_bytes)
{
	CHECK(RECOGNIZED("[{\"frame\":{\"name\":\"ROOT\""));
	CHECK(RECOGNIZED("[\n    {\n        \"children\": [\n"));
	CHECK(RECOGNIZED(" [ { \"metrics\": {"));
	CHECK(RECOGNIZED("\x92\x83\xa8"
			 "children\x90"));
	CHECK(RECOGNIZED("\x92\x83\xa5"
			 "frame\x90"));
	CHECK(RECOGNIZED("{\"displayTimeUnit\":\"us\",\"traceEvents\":["));
	CHECK(RECOGNIZED("{\"traceEvents\": []}"));
	CHECK(RECOGNIZED("\n\x04\x08\x01\x10\x02"));
	CHECK(RECOGNIZED("\n\x04\x08\x01\x10\x02\n\x02\x08\x01"));
	CHECK(RECOGNIZED(PROFILE_FILE_MAGIC "xxxx"));
}

TEST(other_files_are_not_recognized)
{
	CHECK(!RECOGNIZED(""));
	CHECK(!RECOGNIZED("text"));
	CHECK(!RECOGNIZED("[]"));
	CHECK(!RECOGNIZED("[1, 2, 3]"));
	CHECK(!RECOGNIZED("[{\"name\": \"x\"}]"));
	CHECK(!RECOGNIZED("{\"frame\": 1}"));
	CHECK(!RECOGNIZED("{}"));
	CHECK(!RECOGNIZED("\x92\x01\x02\x03\x04\x05\x06\x07"));
	CHECK(!RECOGNIZED("\x92\x83\xa4name1234"));
	CHECK(!RECOGNIZED("\n"));
	CHECK(!RECOGNIZED("\n\n"));
	CHECK(!RECOGNIZED("\nThis is a text that begins with an empty line, and is a long one.\n"
			  "It has several lines, of which one could be taken for a packet.\n"));
	CHECK(!RECOGNIZED("\177ELF\2\1\1"));
	CHECK(!RECOGNIZED("PROTON\n"));
}

/* Truncated outputs, and outputs with appended bytes: recognized or not. */
TEST(outputs_of_every_format_are_recognized)
{
	const struct export_format *format;

	for (size_t i = 0; (format = export_format_at(i)); i++) {
		int session = REC_START(.name = rec_path("x"), .data = "trace");
		struct proton_error err;
		char file[64], *bytes;
		size_t length;

		rec_kernel("k");
		rec_finalize(session, format->name);
		snprintf(file, sizeof(file), "x.%s", format->suffix);
		CHECK_OK(file_read_all(rec_path(file), NULL, &bytes, &length, &err), err);
		CHECK(target_recognize(bytes, length < 4096 ? length : 4096));
		free(bytes);
	}
}

static void make_file(const char *name, const char *text)
{
	FILE *file = fopen(rec_path(name), "w");

	CHECK(file != NULL);
	fputs(text, file);
	fclose(file);
}

static int check(const char *name, bool no_clobber, struct proton_error *err)
{
	return target_check_all(rec_path(name), "hatchet", no_clobber, err);
}

TEST(only_profiles_and_empty_files_are_replaced)
{
	struct proton_error err;

	CHECK_OK(check("x", false, &err), err);
	CHECK_OK(check("x", true, &err), err);
	make_file("x.hatchet", "");
	CHECK_OK(check("x", false, &err), err);
	CHECK_EQ(check("x", true, &err), PROTON_E_INVALID);
	make_file("x.hatchet", "[{\"frame\":{}}]");
	CHECK_OK(check("x", false, &err), err);
	CHECK_EQ(check("x", true, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "x.hatchet exists");
	make_file("x.hatchet", "my notes");
	CHECK_EQ(check("x", false, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "x.hatchet: it exists and is not a profile");
	CHECK_EQ(unlink(rec_path("x.hatchet")), 0);
	CHECK_EQ(mkdir(rec_path("x.hatchet"), 0777), 0);
	CHECK_EQ(check("x", false, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "it is a directory");
	make_file("y.proton", "my notes");
	CHECK_EQ(check("y", false, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "y.proton: it exists and is not a profile");
	make_file("y.proton", "");
	CHECK_OK(check("y", true, &err), err);
	make_file("z.part_12.hatchet", "[{\"frame\":{}}]");
	CHECK_OK(check("z", false, &err), err);
	CHECK_EQ(check("z", true, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "z.part_12.hatchet exists");
}

TEST(no_clobber_moves_a_killed_run_and_refuses_a_finished_one)
{
	struct proton_error err;
	int session = rec_start("x");

	rec_kernel("k");
	CHECK_OK(check("x", true, &err), err); /* another process would take x.PID */
	rec_finalize(session, "proton");
	CHECK_OK(check("x", false, &err), err);
	CHECK_EQ(check("x", true, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "x.proton exists");
}
