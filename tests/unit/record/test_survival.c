/* Crash safety of the recorder: the program ends abnormally, or a resource is exhausted. */
#include "unit/recorded.h"

#include <sys/mount.h>
#include <sys/resource.h>

static void wait_for(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
}

static void record_thousand(void)
{
	rec_start("a");
	proton_scope_enter("outer");
	for (int i = 0; i < 1000; i++)
		rec_kernel("k");
}

TEST(kill_9_loses_nothing)
{
	rec_end_child(record_thousand, SIGKILL);
	struct profile *profile = rec_load("a.proton");
	CHECK(profile->is_unfinished);
	CHECK_U64(rec_count(profile, "outer/k"), 1000);
}

TEST(kill_9_at_any_moment_leaves_a_file_that_can_be_read)
{
	rec_dir();
	for (int round = 0; round < 12; round++) {
		struct timespec delay = {.tv_nsec = 2000000 + round * 700000};
		struct profile *profile;
		pid_t pid = fork();

		if (pid == 0) {
			rec_start("a");
			for (long i = 0;; i++) {
				char name[32];
				uint64_t token;

				snprintf(name, sizeof(name), "scope%ld", i);
				token = proton_scope_enter(name);
				rec_kernel("k");
				proton_scope_exit(token, NULL);
			}
		}
		nanosleep(&delay, NULL);
		kill(pid, SIGKILL);
		wait_for(pid);
		if (rec_exists("a.proton")) {
			struct proton_error err;
			int status = profile_load_file(rec_path("a.proton"), &profile, &err);

			if (status == PROTON_E_FORMAT && (strstr(err.text, "during startup") ||
							  strstr(err.text, "it is empty"))) {
				unlink(rec_path("a.proton"));
				continue;
			}
			CHECK_OK(status, err);
			CHECK(profile->is_unfinished);
			CHECK(!profile->is_damaged);
			for (size_t n = 1; n < profile->node_count; n++)
				CHECK_LT(profile->nodes[n].parent, n);
			profile_free(profile);
			unlink(rec_path("a.proton"));
		}
	}
}

TEST(a_forked_child_records_nothing_and_the_parent_is_complete)
{
	int status;

	rec_start("a");
	uint64_t token = proton_scope_enter("both");
	rec_kernel("k");
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0'; /* the directory is the parent's */
		if (proton_is_profiling())
			exit(1);
		rec_kernel("child");
		proton_scope_exit(token, NULL);
		exit(0); /* runs the exit handlers, which must leave the parent's files alone */
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK(rec_exists("a.proton"));
	rec_kernel("k");
	proton_scope_exit(token, NULL);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	struct profile *profile = rec_load("a.hatchet");
	CHECK_U64(rec_count(profile, "both/k"), 2);
	CHECK_EQ(rec_node(profile, "both/child"), REC_NOWHERE);
}

TEST(a_forked_child_may_start_its_own)
{
	int status;

	rec_start("parent");
	proton_scope_enter("parents_scope");
	pid_t pid = fork();
	if (pid == 0) {
		rec_start("child");
		rec_kernel("k");
		rec_finalize(PROTON_ALL_SESSIONS, NULL);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	rec_kernel("k");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	struct profile *profile = rec_load("child.hatchet");
	CHECK_U64(rec_count(profile, "k"), 1);
	profile = rec_load("parent.hatchet");
	CHECK_U64(rec_count(profile, "parents_scope/k"), 1);
}

TEST(a_program_that_ends_without_finalizing_still_writes)
{
	rec_dir();
	pid_t pid = fork();
	if (pid == 0) {
		rec_start("a");
		rec_kernel("k");
		*rec_directory = '\0'; /* the directory is the parent's */
		exit(0);
	}
	wait_for(pid);
	CHECK(!rec_exists("a.proton"));
	EXPECT(rec_load("a.hatchet"), {"k", 1});
}

static void record_and_handle_signals(void)
{
	rec_start("a");
	proton_own_sessions();
	CHECK_DONE(proton_finalize_on_signals(&err));
	rec_kernel("k");
}

TEST(sigterm_writes_the_profile_and_then_ends_the_program)
{
	int status = rec_end_child(record_and_handle_signals, SIGTERM);

	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	EXPECT(rec_load("a.hatchet"), {"k", 1});
}

TEST(a_second_process_under_the_same_name_gets_another_name)
{
	char name[64];

	rec_start("a");
	rec_kernel("parent");
	pid_t pid = fork();
	if (pid == 0) {
		rec_start("a");
		rec_kernel("child");
		rec_finalize(PROTON_ALL_SESSIONS, NULL);
		_exit(0);
	}
	wait_for(pid);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	struct profile *profile = rec_load("a.hatchet");
	CHECK_U64(rec_count(profile, "parent"), 1);
	CHECK_EQ(rec_node(profile, "child"), REC_NOWHERE);
	snprintf(name, sizeof(name), "a.%d.hatchet", (int)pid);
	profile = rec_load(name);
	CHECK_U64(rec_count(profile, "child"), 1);
}

/* Records until nothing more fits, then checks that the earlier data is readable. */
static void fill(int session)
{
	struct profile *profile;
	uint64_t lost;

	for (int i = 0; i < 60000; i++) {
		char name[64];
		uint64_t token;

		snprintf(name, sizeof(name), "a scope with a unique name, number %d", i);
		token = proton_scope_enter(name);
		rec_kernel("k");
		proton_scope_exit(token, NULL);
	}
	lost = rec_counter(session, "lost: profile storage full");
	CHECK_NE(lost, 0);
	CHECK_NE(lost, UINT64_MAX);
	profile = rec_load("a.proton");
	CHECK(!profile->is_damaged);
	CHECK_U64(rec_count(profile, "a scope with a unique name, number 0/k"), 1);
}

static volatile sig_atomic_t size_signals;

static void count_size_signal(int number)
{
	(void)number;
	size_signals++;
}

/* Runs into a file size limit while recording and while writing the output. */
static void exceed_file_size(void)
{
	struct rlimit limit = {.rlim_cur = 3 << 20, .rlim_max = RLIM_INFINITY};
	struct proton_error err;

	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int session = rec_start("a");
	fill(session);
	CHECK_EQ(proton_finalize(session, NULL, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "File too large");
	CHECK_HAS(err.text, "the recorded data is in");
	CHECK(!rec_exists("a.hatchet"));
	limit.rlim_cur = 1000;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_LT(rec_start_as("b", "shadow", &err), 0);
	CHECK_HAS(err.text, "File too large");
	CHECK(!rec_exists("b.proton"));
}

TEST(a_file_size_limit_acts_like_a_full_disk)
{
	exceed_file_size();
}

TEST(a_file_size_limit_acts_like_a_full_disk_on_tmpfs)
{
	if (mount("none", rec_dir(), "tmpfs", 0, NULL) != 0)
		SKIP("mounting a tmpfs needs root: %s", strerror(errno));
	exceed_file_size();
	CHECK_EQ(umount2(rec_dir(), MNT_DETACH), 0);
}

TEST(a_file_size_limit_leaves_the_signals_of_the_program_alone)
{
	struct sigaction mine = {.sa_handler = count_size_signal};
	struct rlimit limit = {.rlim_cur = 3 << 20, .rlim_max = RLIM_INFINITY};
	struct sigaction now;
	sigset_t set;

	CHECK_EQ(sigaction(SIGXFSZ, &mine, NULL), 0);
	exceed_file_size();
	CHECK_EQ(size_signals, 0);
	CHECK_EQ(sigaction(SIGXFSZ, NULL, &now), 0);
	CHECK(now.sa_handler == count_size_signal);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	CHECK_EQ(sigismember(&set, SIGXFSZ), 0);
	/* One that the program has blocked and that is pending stays so. */
	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	int fd = open(rec_path("own"), O_WRONLY | O_CREAT, 0600);
	CHECK_LT(ftruncate(fd, 4 << 20), 0);
	exceed_file_size();
	CHECK_EQ(sigpending(&set), 0);
	CHECK_EQ(sigismember(&set, SIGXFSZ), 1);
	CHECK_EQ(size_signals, 0);
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	close(fd);
}

TEST(texts_that_do_not_fit_are_counted_as_lost)
{
	struct rlimit limit = {.rlim_cur = 2 << 20, .rlim_max = RLIM_INFINITY};
	char text[4096];
	struct proton_metric metric = {
		.name = "t (pty)", .type = PROTON_METRIC_STRING, .value.string = text};

	rec_dir();
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int session = rec_start("a");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	uint64_t before = rec_counter(session, "lost: profile storage full");
	for (int i = 0; i < 1000; i++) {
		text[0] = (char)('a' + i % 26);
		text[1] = (char)('a' + i / 26 % 26);
		text[2] = (char)('a' + i / 676);
		CHECK_DONE(proton_metrics_add(proton_context_here(), &metric, 1, &err));
	}
	CHECK_LT(before + 100, rec_counter(session, "lost: profile storage full"));
	CHECK_DONE(proton_finalize(session, "none", &err));
}

TEST(a_full_trace_acts_like_a_full_disk)
{
	struct rlimit limit = {.rlim_cur = 3 << 20, .rlim_max = RLIM_INFINITY};
	struct profile *profile;
	struct proton_error err;

	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int session = REC_START(.data = "trace");
	for (int i = 0; i < 60000; i++)
		proton_scope_exit(proton_scope_enter("step"), NULL);
	CHECK_NE(rec_counter(session, "lost: profile storage full"), 0);
	CHECK_EQ(proton_finalize(session, NULL, &err), PROTON_E_IO);
	profile = rec_load("a.proton");
	CHECK(!profile->is_damaged);
	CHECK_LT(10000, profile->trace->event_count);
}

TEST(a_full_disk_is_reported_once_and_survived)
{
	struct proton_error err;

	if (mount("none", rec_dir(), "tmpfs", 0, "size=3m") != 0)
		SKIP("mounting a small tmpfs needs root: %s", strerror(errno));
	int session = rec_start("a");
	fill(session);
	/* The output does not fit either: an error with a name, and the data stays. */
	CHECK_EQ(proton_finalize(session, NULL, &err), PROTON_E_NOSPACE);
	CHECK_HAS(err.text, "No space left on device");
	CHECK_HAS(err.text, "the recorded data is in");
	CHECK(rec_exists("a.proton"));
	CHECK(!rec_exists("a.hatchet"));
	CHECK_EQ(umount2(rec_dir(), MNT_DETACH), 0);
}

TEST(a_full_disk_is_an_error_of_start)
{
	struct proton_error err;

	if (mount("none", rec_dir(), "tmpfs", 0, "size=128k") != 0)
		SKIP("mounting a small tmpfs needs root: %s", strerror(errno));
	CHECK_LT(rec_start_as("a", "shadow", &err), 0);
	CHECK_EQ(err.status, PROTON_E_NOSPACE);
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("a.proton"));
	CHECK_EQ(umount2(rec_dir(), MNT_DETACH), 0);
}

TEST(little_address_space_is_enough)
{
	struct rlimit limit = {.rlim_cur = 2ull << 30, .rlim_max = RLIM_INFINITY};

	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer needs the address space itself");
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	int session = rec_start("a");
	rec_kernel("k");
	rec_finalize(session, NULL);
	EXPECT(rec_load("a.hatchet"), {"k", 1});
}

TEST(an_error_names_no_working_file_that_is_gone)
{
	struct proton_error err;

	CHECK_EQ(mkdir(rec_path("d"), 0700), 0);
	int session = rec_start("d/a");
	rec_kernel("k");
	CHECK_EQ(unlink(rec_path("d/a.proton")), 0);
	CHECK_EQ(rmdir(rec_path("d")), 0);
	CHECK_EQ(proton_finalize(session, NULL, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "cannot write ");
	CHECK_HAS(err.text, "the recorded data was in ");
	CHECK_HAS(err.text, "d/a.proton, which is gone");
}

static int start_and_truncate(off_t bytes)
{
	int session = rec_start("a");

	for (int i = 0; i < 1000; i++)
		rec_kernel(i % 2 ? "k" : "another");
	CHECK_EQ(truncate(rec_path("a.proton"), bytes), 0);
	return session;
}

TEST(a_truncated_working_file_is_a_loss_and_no_signal)
{
	static const off_t sizes[] = {0, 1, 64 << 10, 200 << 10, 400 << 10};

	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer handles the signal itself");
	rec_begin_saying();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int session = start_and_truncate(sizes[i]);
		struct proton_error err;
		char *bytes;
		size_t length;
		char name[32];

		for (int scope = 0; scope < 20000; scope++) {
			uint64_t token;

			snprintf(name, sizeof(name), "scope %d", scope);
			token = proton_scope_enter(name);
			rec_kernel("k");
			proton_scope_exit(token, NULL);
		}
		CHECK_OK(proton_phase_advance(session, NULL, &err), err);
		CHECK_OK(proton_phase_clear(session, 0, true, &err), err);
		CHECK_EQ(proton_data_get(session, 0, NULL, &bytes, &length, &err), PROTON_E_IO);
		CHECK_HAS(err.text, "another program has truncated");
		CHECK_NE(rec_counter(session, "lost: profile storage full"), 0);
		CHECK_EQ(proton_finalize(session, NULL, &err), PROTON_E_IO);
		CHECK_HAS(err.text, "cannot write the profile of ");
		CHECK_HAS(err.text, "another program has truncated");
		CHECK(!rec_exists("a.hatchet"));
		CHECK_EQ(unlink(rec_path("a.proton")), 0);
	}
}

static void do_nothing(int number)
{
	(void)number;
}

/* Ends the child by a SIGBUS that has nothing to do with a profile. */
static void end_by_bus_error(bool is_sent)
{
	int fd = open(rec_path("mine"), O_RDWR | O_CREAT, 0600);

	volatile char *mine = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (is_sent)
		kill(getpid(), SIGBUS);
	else
		*mine = 1;
}

TEST(every_other_bus_error_is_left_to_the_program)
{
	struct sigaction now;

	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer handles the signal itself");
	rec_dir();
	for (int is_sent = 0; is_sent < 2; is_sent++) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			rec_start("a");
			end_by_bus_error(is_sent);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	}
	rec_finalize(rec_start("b"), "none");
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_handler == SIG_DFL);
	signal(SIGBUS, do_nothing); /* a handler of the program stays */
	rec_start("b");
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_handler == do_nothing);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(sigaction(SIGBUS, NULL, &now), 0);
	CHECK(now.sa_handler == do_nothing);
}

static unsigned long address_space(void)
{
	unsigned long pages;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return pages * (unsigned long)sysconf(_SC_PAGESIZE);
}

/* Scopes by 3,000 names with `left` bytes of address space, in a child. */
static void record_with_little_space(unsigned long left)
{
	int session = rec_start("a");
	struct rlimit limit = {.rlim_cur = address_space() + left, .rlim_max = RLIM_INFINITY};
	uint64_t kernels = 0;
	char name[32];

	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	for (int i = 0; i < 3000; i++) {
		uint64_t known = 0;
		uint64_t token;

		snprintf(name, sizeof(name), "scope %d", i);
		token = proton_scope_enter_name(name, strlen(name), &known);
		rec_kernel("k");
		proton_scope_exit(token, NULL);
	}
	limit.rlim_cur = RLIM_INFINITY;
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
	struct profile *profile = rec_load("a.proton");
	if (!rec_counter(session, "lost: profile storage full"))
		CHECK_NE(rec_node(profile, "scope 2999"), REC_NOWHERE);
	for (uint32_t i = 1; i < profile->kernel_count; i++)
		kernels += profile->kernels[i].count;
	if (!rec_counter(session, "lost: profile storage full"))
		CHECK_U64(kernels, 3000);
	CHECK_U64(rec_counter(session, "kernels"), kernels);
	rec_finalize(session, "none");
}

TEST(a_program_that_limits_its_address_space_later_is_not_harmed)
{
	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer needs the address space itself");
	rec_dir();
	for (unsigned long left = 0; left < 16ul << 20; left = left * 2 + (64 << 10)) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			record_with_little_space(left);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
	}
}

TEST(a_session_takes_little_address_space)
{
	unsigned long before = address_space();

	if (TAP_IS_SANITIZED)
		SKIP("addresses cannot be chosen under ThreadSanitizer");
	skip_if_emulated("the emulator's own memory counts");
	rec_start("a");
	CHECK_LT(address_space() - before, 64ul << 20);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(a_million_scopes)
{
	const int count = TAP_IS_SANITIZED ? 100000 : 1000000;

	CHECK_EQ(setenv("PROTON_MAX_CHILDREN", "0", 1), 0);
	CHECK_EQ(setenv("PROTON_MAX_NAMES", "0", 1), 0);
	int session = rec_start("a");
	for (int i = 0; i < count; i++) {
		char name[16];
		uint64_t token;

		snprintf(name, sizeof(name), "s%d", i);
		token = proton_scope_enter(name);
		proton_scope_exit(token, NULL);
	}
	CHECK_U64(rec_counter(session, "contexts"), (uint64_t)count);
	rec_finalize(session, "proton");
	CHECK_EQ(rec_load("a.proton")->node_count, count + 1);
}

TEST(a_path_of_ten_thousand_levels)
{
	uint32_t node;
	int depth = 0;
	int session = rec_start("a");

	for (int i = 0; i < 10000; i++)
		proton_scope_enter("down");
	rec_kernel("k");
	rec_finalize(session, NULL);
	struct profile *profile = rec_load("a.hatchet");
	for (node = 0; profile->nodes[node].first_child; node = profile->nodes[node].first_child)
		depth++;
	CHECK_EQ(depth, 10001);
}
