/* Support for recorder tests: directories, sessions with short options, and reading their data. */
#pragma once

#include "unit/tap.h"

#include <ftw.h>

#include <libproton/proton.h>

#include "base/buf.h"
#include "format/profile_view.h"
#include "model/load.h"
#include "model/profile.h"

static char rec_directory[64];

static int rec_remove(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	return remove(path);
}

static void rec_clean(void)
{
	if (*rec_directory)
		nftw(rec_directory, rec_remove, 16, FTW_DEPTH | FTW_PHYS);
	*rec_directory = '\0';
}

/* The directory, made on first use and removed when the test's process exits normally. */
static const char *rec_dir(void)
{
	if (!*rec_directory) {
		strcpy(rec_directory, "/tmp/proton-test-XXXXXX");
		CHECK(mkdtemp(rec_directory));
		atexit(rec_clean);
	}
	return rec_directory;
}

/* Runs it in a forked child, which leaves the files. If it fails, the test fails, with `what`. */
__attribute__((unused)) static void rec_in_child(void (*run)(void), const char *what)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0';
		run();
		exit(0);
	}
	CHECK_LT(0, pid);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s: see above", what);
}

/* Ends a forked child with `signal` after it ran `run`; returns its status. */
__attribute__((unused)) static int rec_end_child(void (*run)(void), int signal)
{
	int ready[2], status;
	char byte;

	rec_dir();
	CHECK_EQ(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		run();
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	kill(pid, signal);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

/* "<directory>/<file>", in one of eight rotating buffers. */
__attribute__((unused)) static const char *rec_path(const char *file)
{
	static char paths[8][256];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, 256, "%s/%s", rec_dir(), file);
	return path;
}

/* A quiet host session "a", unless the options say another; -1 with the error. */
__attribute__((unused)) static int rec_try_start(struct proton_session_options options,
						 struct proton_error *err)
{
	int session = -1;

	options.size = sizeof(options);
	options.name = options.name ? options.name : rec_path("a");
	options.backend = options.backend ? options.backend : "host";
	options.flags |= PROTON_SESSION_QUIET;
	return proton_start(&options, &session, err) == PROTON_OK ? session : -1;
}

__attribute__((unused)) static int rec_start_with(struct proton_session_options options)
{
	struct proton_error err = {0};
	int session = rec_try_start(options, &err);

	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

/* REC_START(.data = "trace"); the test fails if it does not start. */
#define REC_START(...) rec_start_with((struct proton_session_options){__VA_ARGS__})

__attribute__((unused)) static int rec_start_as(const char *name, const char *context,
						struct proton_error *err)
{
	return rec_try_start(
		(struct proton_session_options){.name = rec_path(name), .context = context}, err);
}

/* A host session with scopes. */
__attribute__((unused)) static int rec_start(const char *name)
{
	return REC_START(.name = rec_path(name), .context = "shadow");
}

__attribute__((unused)) static void rec_finalize(int session, const char *format)
{
	CHECK_DONE(proton_finalize(session, format, &err));
}

__attribute__((unused)) static void rec_kernel(const char *name)
{
	uint32_t frame = proton_frame(name, strlen(name));

	proton_kernel_begin(frame);
	proton_kernel_end();
}

__attribute__((unused)) static bool rec_exists(const char *file)
{
	return access(rec_path(file), F_OK) == 0;
}

#define REC_PROFILES 64 /* that a test may hold at once */

static struct profile *rec_profiles[REC_PROFILES];

static void rec_free_profiles(void)
{
	for (size_t i = 0; i < REC_PROFILES; i++)
		profile_free(rec_profiles[i]);
}

/* The test's process frees the profile when it exits, or when it has loaded many others. */
static struct profile *rec_keep(struct profile *profile)
{
	static size_t loaded;
	struct profile **kept = &rec_profiles[loaded++ % REC_PROFILES];

	if (loaded == 1)
		atexit(rec_free_profiles);
	profile_free(*kept);
	*kept = profile;
	return profile;
}

/* Loads "<directory>/<file>". */
__attribute__((unused)) static struct profile *rec_load(const char *file)
{
	struct profile *profile = NULL;

	CHECK_DONE(profile_load_file(rec_path(file), &profile, &err));
	for (size_t i = 0; i < profile->info_count; i++) /* each has one value */
		for (size_t j = 0; j < i; j++)
			CHECK(profile->info[i].key != profile->info[j].key);
	return rec_keep(profile);
}

/* Begins a phase; returns it. */
__attribute__((unused)) static uint32_t rec_advance(int session)
{
	uint32_t phase;

	CHECK_DONE(proton_phase_advance(session, &phase, &err));
	return phase;
}

/* Begins a phase and clears the ones before. */
__attribute__((unused)) static void rec_next_phase(int session)
{
	CHECK_DONE(proton_phase_clear(session, rec_advance(session) - 1, true, &err));
}

/* Ends all sessions; the profile of the one in "a". */
__attribute__((unused)) static struct profile *rec_finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	return rec_load("a.proton");
}

/* One phase of a profile file. */
__attribute__((unused)) static struct profile *rec_load_phase(const char *file, uint32_t phase)
{
	struct profile *profile = NULL;
	struct profile_view view;
	char *bytes;
	size_t length;

	CHECK_DONE(file_read_all(rec_path(file), 0, &bytes, &length, &err));
	CHECK_DONE(profile_view_open(&view, bytes, length, &err));
	CHECK_DONE(profile_load_view(&view, phase, &profile, &err));
	profile_view_fini(&view);
	free(bytes);
	return rec_keep(profile);
}

#define REC_NOWHERE UINT32_MAX

/* The node at "a/b/c" below the root ("" is the root), REC_NOWHERE if there is none. */
__attribute__((unused)) static uint32_t rec_node(const struct profile *profile, const char *path)
{
	uint32_t node = 0;
	char text[512];

	while (*path) {
		size_t length = strcspn(path, "/");
		uint32_t child = profile->nodes[node].first_child;

		for (; child; child = profile->nodes[child].next_sibling) {
			size_t full = profile_frame_text(profile, profile->nodes[child].frame, text,
							 sizeof(text));

			if (full == length && memcmp(text, path, length) == 0)
				break;
		}
		if (!child)
			return REC_NOWHERE;
		node = child;
		path += length;
		path += *path == '/';
	}
	return node;
}

/* Executions at a path, over all devices; 0 if there is no such node. */
__attribute__((unused)) static uint64_t rec_count(const struct profile *profile, const char *path)
{
	uint32_t node = rec_node(profile, path);
	uint64_t count = 0;

	if (node == REC_NOWHERE)
		return 0;
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next)
		count += profile->kernels[k].count;
	return count;
}

/* The value of a metric at a path, NULL if there is none. */
__attribute__((unused)) static const struct profile_value *rec_value(const struct profile *profile,
								     const char *path,
								     const char *metric)
{
	uint32_t node = rec_node(profile, path);
	uint32_t v = node == REC_NOWHERE ? 0 : profile->nodes[node].first_value;

	for (; v; v = profile->values[v].next)
		if (strcmp(profile_text(profile, profile->metrics[profile->values[v].metric].name),
			   metric) == 0)
			return &profile->values[v];
	return NULL;
}

/* A text about the session; NULL if there is none. */
__attribute__((unused)) static const char *rec_info(const struct profile *profile, const char *key)
{
	for (size_t i = 0; i < profile->info_count; i++)
		if (strcmp(profile_text(profile, profile->info[i].key), key) == 0)
			return profile_text(profile, profile->info[i].value);
	return NULL;
}

#pragma GCC diagnostic ignored "-Wmissing-field-initializers" /* without a metric */

/* The executions at a path or, with a metric, the value of a double there. */
struct rec_expected {
	const char *path;
	double number;
	const char *metric;
};

__attribute__((unused)) static void rec_expect(const char *file, int line, struct profile *profile,
					       const struct rec_expected *expected)
{
	for (; expected->path; expected++) {
		const char *metric = expected->metric;
		const struct profile_value *value =
			metric ? rec_value(profile, expected->path, metric) : NULL;
		double number = metric ? NAN : (double)rec_count(profile, expected->path);

		if (value)
			number = value->as.float64;
		if (!(number == expected->number))
			tap_fail(file, line, "%s of \"%s\" is %.17g, not %.17g",
				 metric ? metric : "the count", expected->path, number,
				 expected->number);
	}
}

/* A profile has these numbers: EXPECT(finish(), {"s/k", 2}, {"s", 50, "flops"}). */
#define EXPECT(profile, ...)                                                                       \
	rec_expect(__FILE__, __LINE__, profile,                                                    \
		   (const struct rec_expected[]){__VA_ARGS__, {NULL, 0, NULL}})

/* Standard error goes to a file from now on. */
__attribute__((unused)) static void rec_begin_saying(void)
{
	int fd = open(rec_path("said"), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);

	CHECK_LE(0, fd);
	fflush(stderr);
	CHECK_LE(0, dup2(fd, STDERR_FILENO));
	close(fd);
}

/* How often `part` was printed since then. */
__attribute__((unused)) static int rec_printed(const char *part)
{
	int fd = open(rec_path("said"), O_RDONLY);
	char text[8192] = "";
	int count = 0;

	CHECK_LE(0, read(fd, text, sizeof(text) - 1));
	close(fd);
	for (const char *at = text; (at = strstr(at, part)); at++)
		count++;
	return count;
}

/* The rows that a table of the profile file in rec_dir() has. */
__attribute__((unused)) static uint64_t rec_rows(const char *file, enum table_id table)
{
	struct profile_view view;
	char *bytes;
	size_t length;

	CHECK_DONE(file_read_all(rec_path(file), 0, &bytes, &length, &err));
	CHECK_DONE(profile_view_open(&view, bytes, length, &err));
	uint64_t count = view.rows[table];
	profile_view_fini(&view);
	free(bytes);
	return count;
}

/* A session's counter by name; UINT64_MAX if there is none. */
__attribute__((unused)) static uint64_t rec_counter(int session, const char *name)
{
	struct proton_counter counters[32];
	int count = proton_statistics(session, counters, 32, NULL);

	for (int i = 0; i < count; i++)
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].value;
	return UINT64_MAX;
}

/* A copy of the library in which the symbol has another name. */
__attribute__((unused)) static const char *rec_without(const char *path, const char *symbol)
{
	const char *copy = rec_path("copy.so");
	size_t length = strlen(symbol);
	unsigned found = 0;
	char *bytes;
	size_t size;

	CHECK_DONE(file_read_all(path, 0, &bytes, &size, &err));
	for (size_t i = 1; i + length < size; i++) {
		if (bytes[i - 1] || memcmp(bytes + i, symbol, length + 1) != 0)
			continue;
		bytes[i] = 'x';
		found++;
	}
	CHECK_LT(0, found);
	unlink(copy);
	int fd = open(copy, O_CREAT | O_EXCL | O_WRONLY, 0700);
	CHECK_LE(0, fd);
	CHECK_EQ(write(fd, bytes, size), size);
	close(fd);
	free(bytes);
	return copy;
}
