/*
 * Outputs that cannot be written at the end of a session: each format on a full disk, in a
 * directory that is gone and in one that is read-only. As root, the last one runs as another user.
 */
#include "unit/recorded.h"

#include <dirent.h>
#include <sys/resource.h>

#define SCOPES 300

static const struct {
	const char *name, *suffix;
	bool is_trace;
} formats[] = {
	{"hatchet", "hatchet", false},
	{"hatchet_msgpack", "hatchet_msgpack", false},
	{"chrome_trace", "chrome_trace", true},
	{"perfetto", "pftrace", true},
	{"proton", "proton", false},
	{"proton", "proton", true},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

/* A session in "<directory>/out" with scopes that need more than 4 KiB in each format. */
static int start_in_out(size_t format)
{
	CHECK_EQ(mkdir(rec_path("out"), 0700), 0);
	int session = REC_START(.name = rec_path("out/x"),
				.data = formats[format].is_trace ? "trace" : "tree");
	for (int i = 0; i < SCOPES; i++) {
		char name[64];
		uint64_t token;

		snprintf(name, sizeof(name), "a scope with the number %d", i);
		token = proton_scope_enter(name);
		rec_kernel("k");
		proton_scope_exit(token, NULL);
	}
	return session;
}

/* The session ends with an error that says `why` of the output and what is left. */
static void finalize_without(int session, size_t format, int status, const char *why,
			     const char *left)
{
	struct proton_error err = {0};
	char expected[1024];

	CHECK_EQ(proton_finalize(session, formats[format].name, &err), status);
	snprintf(expected, sizeof(expected),
		 "cannot write %s.%s: %s; the recorded data %s in %s.proton%s", rec_path("out/x"),
		 formats[format].suffix, why, *left ? "was" : "is", rec_path("out/x"), left);
	CHECK_STR(err.text, expected);
	CHECK_EQ(err.status, status);
	CHECK(!proton_is_profiling());
}

/* The directory has the complete working file and nothing else, such as a temporary file. */
static void check_kept(const char *directory)
{
	char path[64];
	struct dirent *entry;

	DIR *files = opendir(rec_path(directory));
	uint64_t scopes = 0;

	CHECK(files != NULL);
	while ((entry = readdir(files)) != NULL)
		if (*entry->d_name != '.' || strlen(entry->d_name) > 2)
			CHECK_STR(entry->d_name, "x.proton");
	closedir(files);
	snprintf(path, sizeof(path), "%s/x.proton", directory);
	struct profile *profile = rec_load(path);
	CHECK(!profile->is_unfinished && !profile->is_damaged);
	for (int i = 0; i < SCOPES; i++) {
		char name[64];

		snprintf(name, sizeof(name), "a scope with the number %d/k", i);
		scopes += rec_count(profile, name);
	}
	CHECK_U64(scopes, SCOPES);
	CHECK_EQ(unlink(rec_path(path)), 0);
	CHECK_EQ(rmdir(rec_path(directory)), 0);
}

TEST(full_disk)
{
	struct rlimit limit, none;

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &none), 0);
	limit = none;
	limit.rlim_cur = 1024;
	signal(SIGXFSZ, SIG_IGN);
	for (size_t i = 0; i < FORMATS; i++) {
		int session = start_in_out(i);

		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
		finalize_without(session, i, PROTON_E_IO, "File too large", "");
		CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
		check_kept("out");
	}
}

TEST(directory_that_was_renamed)
{
	for (size_t i = 0; i < FORMATS; i++) {
		int session = start_in_out(i);

		CHECK_EQ(rename(rec_path("out"), rec_path("elsewhere")), 0);
		finalize_without(session, i, PROTON_E_IO, "No such file or directory",
				 ", which is gone");
		CHECK(!rec_exists("out"));
		check_kept("elsewhere");
	}
}

TEST(directory_that_was_removed)
{
	for (size_t i = 0; i < FORMATS; i++) {
		int session = start_in_out(i);

		CHECK_EQ(unlink(rec_path("out/x.proton")), 0);
		CHECK_EQ(rmdir(rec_path("out")), 0);
		finalize_without(session, i, PROTON_E_IO, "No such file or directory",
				 ", which is gone");
		CHECK(!rec_exists("out"));
	}
}

TEST(read_only_directory)
{
	if (geteuid() == 0)
		CHECK_EQ(setresuid(65534, 65534, 65534), 0);
	for (size_t i = 0; i < FORMATS; i++) {
		int session = start_in_out(i);

		CHECK_EQ(chmod(rec_path("out"), 0500), 0);
		finalize_without(session, i, PROTON_E_PERMISSION, "Permission denied", "");
		CHECK_EQ(chmod(rec_path("out"), 0700), 0);
		check_kept("out");
	}
}
