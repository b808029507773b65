/* model/load: formats are recognized by their first bytes, and other files get an error message. */
#include "unit/tap.h"

#include "base/buf.h"
#include "export/export.h"
#include "format/rows.h"
#include "model/load.h"

static void check_refused(const char *bytes, size_t length, const char *expected)
{
	struct profile *profile = NULL;
	struct proton_error err;

	CHECK_EQ(profile_load_bytes("x.hatchet", bytes, length, &profile, &err), PROTON_E_FORMAT);
	CHECK_STR(err.text, expected);
	CHECK_PTR(profile, NULL);
	CHECK_EQ(profile_load_bytes("x", bytes, length, &profile, NULL), PROTON_E_FORMAT);
}

#define REFUSED(literal, expected) check_refused(literal, sizeof(literal) - 1, expected)

/* Killed after extending the file and before writing its header. */
TEST(a_profile_file_without_its_header_is_reported)
{
	static const char zeros[PROFILE_FILE_HEADER_BYTES];
	char path[] = "/tmp/proton-test-XXXXXX";
	int fd = mkstemp(path);
	struct profile *profile = NULL;
	struct proton_error err;

	CHECK_EQ(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
	close(fd);
	CHECK_EQ(profile_load_file(path, &profile, &err), PROTON_E_FORMAT);
	CHECK_HAS(err.text, "it is empty: the process exited during startup");
	unlink(path);
	check_refused(zeros, sizeof(zeros),
		      "cannot read x.hatchet: it is empty: the process exited during startup");
}

TEST(other_files_are_reported_by_name)
{
	REFUSED("", "cannot read x.hatchet: it is empty");
	REFUSED("\x1f\x8b\x08\x00",
		"cannot read x.hatchet: it is compressed with gzip; decompress it first (gunzip)");
	REFUSED("\x28\xb5\x2f\xfd\x00",
		"cannot read x.hatchet: it is compressed with zstd; decompress it first (unzstd)");
	REFUSED("\xfd"
		"7zXZ\x00",
		"cannot read x.hatchet: it is compressed with xz; decompress it first (unxz)");
	REFUSED("PK\x03\x04",
		"cannot read x.hatchet: it is a zip archive; extract the profile first");
	REFUSED(" {\"displayTimeUnit\":\"us\",\"traceEvents\":[]}",
		"cannot read x.hatchet: it is a Chrome trace; open it with a trace viewer such as "
		"ui.perfetto.dev");
	REFUSED("import triton\n",
		"cannot read x.hatchet: it is not a profile (.proton, .hatchet or "
		".hatchet_msgpack)");
	REFUSED("{\"a\":1}", "cannot read x.hatchet: it is not a profile (.proton, .hatchet or "
			     ".hatchet_msgpack)");
	REFUSED("\0\0\0\0", "cannot read x.hatchet: it is not a profile (.proton, .hatchet or "
			    ".hatchet_msgpack)");
	REFUSED("[1]",
		"cannot read x.hatchet: not a profile: a list of a tree and a device table is "
		"expected");
	REFUSED("\x92\x01\x02",
		"cannot read x.hatchet: not a profile: a list of a tree and a device "
		"table is expected");
	REFUSED("\x89PROTON\n", "cannot read x.hatchet: truncated profile file header");
}

TEST(files_that_cannot_be_read_are_named)
{
	struct profile *profile;
	struct proton_error err;

	CHECK_EQ(profile_load_file("/nonexistent/x", &profile, &err), PROTON_E_IO);
	CHECK_STR(err.text, "cannot open /nonexistent/x: No such file or directory");
	CHECK(profile_load_file("/", &profile, &err) != PROTON_OK);
	CHECK_STR(err.text, "cannot read /: it is a directory");
	CHECK_EQ(profile_load_file("/dev/null", &profile, &err), PROTON_E_FORMAT);
	CHECK_STR(err.text, "cannot read /dev/null: it is a device, not a file; read pipes as "
			    "standard input (-)");
}

/* Exports a loaded sample in `format` and loads that again. */
static struct profile *through(const struct profile *profile, const char *format)
{
	struct profile *again;
	struct out out;

	out_init(&out, -1);
	CHECK_DONE(export_format_find(format)->write(profile, &out, &err));
	CHECK_DONE(out_finish(&out, &err));
	CHECK_DONE(profile_load_bytes("again", out.bytes, out.length, &again, &err));
	out_fini(&out);
	return again;
}

TEST(both_hatchet_formats_are_recognized)
{
	struct profile *profile, *json, *packed;

	CHECK_DONE(profile_load_file(TESTS_DIR "/data/viewer/up_pc.hatchet", &profile, &err));
	json = through(profile, "hatchet");
	packed = through(profile, "hatchet_msgpack");
	CHECK_EQ(json->node_count, profile->node_count);
	CHECK_EQ(packed->node_count, profile->node_count);
	CHECK_EQ(packed->value_count, profile->value_count);
	CHECK_EQ(packed->kernel_count, json->kernel_count);
	CHECK_EQ(packed->device_count, 1);
	profile_free(profile);
	profile_free(json);
	profile_free(packed);
}

TEST(a_truncated_msgpack_file_gives_the_part_before)
{
	struct profile *profile;
	struct proton_error err;
	struct out out;

	CHECK_OK(profile_load_file(TESTS_DIR "/data/viewer/up_pc.hatchet", &profile, &err), err);
	out_init(&out, -1);
	CHECK_OK(export_msgpack(profile, &out, &err), err);
	for (size_t cut = 0; cut < out.length; cut += 7) {
		struct profile *part = NULL;
		int status = profile_load_msgpack(out.bytes, cut, &part, &err);

		if (status == PROTON_OK)
			CHECK(part->is_damaged);
		else
			CHECK_LE(cut, 22); /* before the name of ROOT */
		profile_free(part);
	}
	out_fini(&out);
	profile_free(profile);
}
