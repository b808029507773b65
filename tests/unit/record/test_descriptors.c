/* Programs that close descriptors that they did not open, as daemons do, and reuse the numbers. */
#include "unit/recorded.h"

#include <sys/resource.h>

#include "format/profile_file.h"

/* Replaces each descriptor from 3 up by "mine", as if it had been closed first. */
static void reuse_descriptors(void)
{
	bool was_open[4096] = {false};
	int file = open(rec_path("mine"), O_RDWR | O_CREAT | O_TRUNC, 0600);

	CHECK_LE(0, file);
	for (int fd = 3; fd < 4096; fd++)
		was_open[fd] = fd != file && fcntl(fd, F_GETFD) >= 0;
	for (int fd = 3; fd < 4096; fd++)
		if (was_open[fd])
			CHECK_EQ(dup2(file, fd), fd);
}

static bool is_mine(int fd)
{
	struct stat mine, st;

	return stat(rec_path("mine"), &mine) == 0 && fstat(fd, &st) == 0 &&
	       st.st_ino == mine.st_ino && st.st_dev == mine.st_dev;
}

static void close_reused(void)
{
	for (int fd = 3; fd < 4096; fd++)
		if (is_mine(fd))
			close(fd);
}

static void enter_scopes(const char *prefix, int count)
{
	for (int i = 0; i < count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s%d", prefix, i);
		proton_scope_exit(proton_scope_enter(name), NULL);
	}
}

/* Records beyond what is mapped while the program's file has the numbers of Proton's. */
static void record_with_reused_descriptors(const char *data)
{
	struct proton_session_options options = {
		.size = sizeof(options), .name = rec_path("a"), .backend = "host", .data = data};
	static const char text[] = "precious results\n";
	char read_back[64] = "";
	struct stat st;
	int session, status;

	rec_begin_saying();
	CHECK_DONE(proton_start(&options, &session, &err));
	enter_scopes("before", 100);
	reuse_descriptors();
	CHECK_EQ(pwrite(900, text, sizeof(text), 0), sizeof(text));
	enter_scopes("after", 20000);
	CHECK_NE(rec_counter(session, "lost: profile storage full"), 0);
	CHECK_EQ(rec_printed("data that does not fit is counted as lost"), 1);
	CHECK_EQ(rec_printed("the program has closed its descriptor"), 1);
	pid_t pid = fork();
	if (pid == 0)
		_exit(!is_mine(900));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	rec_finalize(session, NULL);
	CHECK(is_mine(900));
	CHECK_EQ(fstat(900, &st), 0);
	CHECK_EQ(st.st_size, sizeof(text));
	CHECK_EQ(pread(900, read_back, sizeof(read_back), 0), sizeof(text));
	CHECK_STR(read_back, text);
	CHECK(!rec_exists("a.proton"));
	close_reused();
}

TEST(a_closed_descriptor_ends_the_recording_and_touches_no_file_of_the_program)
{
	record_with_reused_descriptors("tree");
	struct profile *profile = rec_load("a.hatchet");
	CHECK_NE(rec_node(profile, "before99"), REC_NOWHERE);
	CHECK_NE(rec_node(profile, "after0"), REC_NOWHERE);
	CHECK_EQ(rec_node(profile, "after19999"), REC_NOWHERE);
}

TEST(a_closed_descriptor_does_the_same_to_a_trace)
{
	record_with_reused_descriptors("trace");
	CHECK(rec_exists("a.chrome_trace"));
}

TEST(a_file_keeps_its_name_when_its_descriptor_was_closed)
{
	struct profile_file other;
	struct proton_error err;

	rec_start("a");
	rec_kernel("k");
	reuse_descriptors();
	CHECK_EQ(profile_file_create(&other, rec_path("a.proton"), false, &err), PROTON_E_BUSY);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK_OK(profile_file_create(&other, rec_path("a.proton"), false, &err), err);
	profile_file_close(&other, true);
	close_reused();
}

/* The descriptor of the working file. */
static int find_descriptor(const char *name)
{
	for (int fd = 3; fd < 4096; fd++) {
		char link[32], path[256];
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, path, sizeof(path) - 1);
		path[length > 0 ? length : 0] = '\0';
		if (strstr(path, name))
			return fd;
	}
	FAIL("no descriptor of %s", name);
	return -1;
}

#define OWN_BYTES (1 << 20)

struct flipper {
	pthread_t thread;
	_Atomic bool is_ending;
	int fd;   /* the working file, */
	int kept; /* and a copy of its descriptor */
	int mine;
};

static void *flip(void *data)
{
	const struct flipper *flipper = data;

	while (!atomic_load(&flipper->is_ending)) {
		dup2(flipper->mine, flipper->fd);
		dup2(flipper->kept, flipper->fd);
	}
	return NULL;
}

static void check_own_file(int fd, const char *pattern)
{
	static char got[OWN_BYTES];
	struct stat st;

	CHECK_EQ(fstat(fd, &st), 0);
	CHECK_EQ(st.st_size, OWN_BYTES);
	CHECK_EQ(pread(fd, got, OWN_BYTES, 0), OWN_BYTES);
	CHECK_EQ(memcmp(got, pattern, OWN_BYTES), 0);
}

TEST(a_descriptor_that_another_thread_replaces_at_any_moment_harms_no_file_of_the_program)
{
	static char pattern[OWN_BYTES];
	struct flipper flipper = {.mine = open(rec_path("mine"), O_RDWR | O_CREAT, 0600)};

	skip_if_emulated("the emulator has no processes that share memory without descriptors");
	if (TAP_IS_SANITIZED)
		SKIP("under ThreadSanitizer files grow in the process itself");
	memset(pattern, 'A', OWN_BYTES);
	CHECK_EQ(pwrite(flipper.mine, pattern, OWN_BYTES, 0), OWN_BYTES);
	for (int round = 0; round < 100; round++) {
		int session = rec_start("a");

		flipper.fd = find_descriptor("a.proton");
		flipper.kept = dup(flipper.fd);
		atomic_store(&flipper.is_ending, false);
		CHECK_EQ(pthread_create(&flipper.thread, NULL, flip, &flipper), 0);
		enter_scopes("some name of a scope", 8000);
		atomic_store(&flipper.is_ending, true);
		CHECK_EQ(pthread_join(flipper.thread, NULL), 0);
		check_own_file(flipper.mine, pattern);
		close(flipper.kept);
		rec_finalize(session, "none");
	}
	close(flipper.mine);
}

TEST(a_program_that_closes_the_first_hundreds_of_descriptors_is_recorded_whole)
{
	int session = rec_start("a");

	for (int fd = 3; fd < 512; fd++)
		close(fd);
	enter_scopes("s", 20000);
	CHECK_U64(rec_counter(session, "lost: profile storage full"), 0);
	rec_finalize(session, NULL);
}

TEST(a_low_limit_of_descriptors_is_enough)
{
	const struct rlimit limit = {.rlim_cur = 16, .rlim_max = 16};

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	int session = rec_start("a");
	enter_scopes("s", 20000);
	CHECK_U64(rec_counter(session, "lost: profile storage full"), 0);
	rec_finalize(session, NULL);
}

TEST(a_signal_writes_the_profile_and_nothing_into_a_file_of_the_program)
{
	struct stat st;
	int status;

	rec_dir();
	pid_t pid = fork();
	if (pid == 0) {
		struct proton_error err;

		rec_start("a");
		CHECK_OK(proton_finalize_on_signals(&err), err);
		rec_kernel("k");
		reuse_descriptors();
		raise(SIGTERM);
		for (;;)
			pause();
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	CHECK_EQ(stat(rec_path("mine"), &st), 0);
	CHECK_EQ(st.st_size, 0);
	EXPECT(rec_load("a.hatchet"), {"k", 1});
}
