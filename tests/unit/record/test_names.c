/* Several processes, one name: each gets its own profile, and none is replaced. */
#include "unit/recorded.h"

#include <glob.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "format/profile_file.h"

#define PROCESSES 8

/* Executions of kernel `name` over all profiles of the directory. */
static uint64_t count_everywhere(const char *name)
{
	static const char *const patterns[] = {"*.hatchet", "*.proton"};
	uint64_t count = 0;

	for (int i = 0; i < 2; i++) {
		glob_t found = {0};

		glob(rec_path(patterns[i]), 0, NULL, &found);
		for (size_t k = 0; k < found.gl_pathc; k++) {
			struct profile *profile = rec_load(strrchr(found.gl_pathv[k], '/') + 1);

			count += rec_count(profile, name);
		}
		globfree(&found);
	}
	return count;
}

static void remove_all(void)
{
	glob_t found = {0};

	glob(rec_path("*"), 0, NULL, &found);
	for (size_t k = 0; k < found.gl_pathc; k++)
		unlink(found.gl_pathv[k]);
	globfree(&found);
}

static void wait_until(_Atomic int *gate, int count)
{
	while (atomic_load(gate) < count)
		sched_yield();
}

/* Records kernel `name` under "a", beginning with the others, and ends when all have begun. */
static void record_together(const char *name, _Atomic int *gate)
{
	atomic_fetch_add(gate, 1);
	wait_until(gate, PROCESSES);
	int session = rec_start("a");
	rec_kernel(name);
	atomic_fetch_add(gate, 1);
	wait_until(gate, 2 * PROCESSES);
	rec_finalize(session, NULL);
	_exit(0);
}

/* Leaves an unfinished profile of "a" with kernel `name`. */
static void leave_over(const char *name)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		rec_start("a");
		rec_kernel(name);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void start_together(bool has_leftover)
{
	_Atomic int *gate = mmap(NULL, sizeof(*gate), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(gate != MAP_FAILED);
	rec_dir();
	for (int round = 0; round < (TAP_IS_SANITIZED ? 5 : 30); round++) {
		char name[16];

		if (has_leftover)
			leave_over("left");
		atomic_store(gate, 0);
		for (int i = 0; i < PROCESSES; i++) {
			snprintf(name, sizeof(name), "own%d", i);
			if (fork() == 0)
				record_together(name, gate);
		}
		for (int i = 0; i < PROCESSES; i++) {
			int status;

			CHECK_LT(0, wait(&status));
			CHECK_EQ(status, 0);
		}
		for (int i = 0; i < PROCESSES; i++) {
			snprintf(name, sizeof(name), "own%d", i);
			CHECK_U64(count_everywhere(name), 1);
		}
		CHECK_U64(count_everywhere("left"), has_leftover);
		CHECK(rec_exists("a.hatchet"));
		remove_all();
	}
	munmap(gate, sizeof(*gate));
}

TEST(processes_that_start_one_name_at_once_keep_a_profile_each)
{
	start_together(false);
}

TEST(processes_with_one_name_keep_the_profile_of_a_killed_run)
{
	start_together(true);
}

/* In a process with id 1 in a new PID namespace. */
static void record_as_1(const char *name, const char *kernel, const char *format)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			_exit(TAP_EXIT_SKIPPED);
		pid = fork();
		if (pid == 0) {
			int session = rec_start(name);

			rec_kernel(kernel);
			if (format)
				rec_finalize(session, format);
			_exit(0);
		}
		_exit(waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == TAP_EXIT_SKIPPED)
		SKIP("a name space of process ids needs root");
	CHECK_EQ(status, 0);
}

static void check_holds(const char *file, const char *kernel)
{
	EXPECT(rec_load(file), {kernel, 1});
}

TEST(equal_process_ids_get_numbered_names)
{
	int session = rec_start("a");

	rec_kernel("first");
	record_as_1("a", "second", "");
	record_as_1("a", "third", "proton");
	record_as_1("a", "fourth", "");
	rec_finalize(session, NULL);
	check_holds("a.hatchet", "first");
	check_holds("a.1.hatchet", "second");
	check_holds("a.1.2.proton", "third");
	check_holds("a.1.3.hatchet", "fourth");
}

TEST(a_kept_profile_of_an_equal_process_id_is_not_replaced)
{
	rec_dir();
	record_as_1("a", "first", NULL);
	record_as_1("a", "second", NULL);
	record_as_1("a", "third", NULL);
	record_as_1("a", "fourth", "");
	check_holds("a.1.proton", "first");
	check_holds("a.1.2.proton", "second");
	check_holds("a.1.3.proton", "third");
	check_holds("a.hatchet", "fourth");
	CHECK(!rec_exists("a.proton"));
}

/* renameat2() fails from now on, as on file systems without RENAME_NOREPLACE. */
static void refuse_renameat2(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		SKIP("no seccomp here: %s", strerror(errno));
}

TEST(a_file_system_without_exclusive_rename_replaces_nothing_either)
{
	rec_dir();
	refuse_renameat2();
	for (int round = 0; round < 3; round++)
		leave_over("left");
	rec_start("a");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_U64(count_everywhere("left"), 3);
	remove_all();
}

TEST(a_file_of_a_process_that_was_killed_while_it_started_is_used_again)
{
	static const char zeros[PROFILE_FILE_HEADER_BYTES];

	for (size_t bytes = 0; bytes <= sizeof(zeros); bytes += sizeof(zeros)) {
		int fd = open(rec_path("a.proton"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

		CHECK_EQ(write(fd, zeros, bytes), bytes);
		close(fd);
		rec_start("a");
		rec_kernel("k");
		rec_finalize(PROTON_ALL_SESSIONS, NULL);
		check_holds("a.hatchet", "k");
		CHECK(!rec_exists("a.proton"));
	}
}

TEST(a_link_in_place_of_the_working_file_is_not_followed)
{
	struct profile_file file;
	struct proton_error err;

	CHECK_EQ(symlink("elsewhere", rec_path("a.proton")), 0);
	CHECK_EQ(profile_file_create(&file, rec_path("a.proton"), false, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "exists and is not a profile");
	CHECK(!rec_exists("elsewhere"));
}

TEST(a_working_file_that_was_moved_away_is_not_removed)
{
	int session = rec_start("a");

	rec_kernel("k");
	CHECK_EQ(rename(rec_path("a.proton"), rec_path("moved.proton")), 0);
	CHECK_EQ(symlink("moved.proton", rec_path("a.proton")), 0);
	rec_finalize(session, NULL);
	check_holds("a.hatchet", "k");
	check_holds("moved.proton", "k");
	CHECK(rec_exists("a.proton"));
}
