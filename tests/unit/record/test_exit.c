/* Exit of the program while its profile is being written: the profile is complete. */
#include "unit/recorded.h"

/* Enough that writing takes longer than anything else here. */
#define SCOPES 50000

/* Runs `program` in a child process, where a session is live; the status of waitpid(). */
static int run_child(void (*program)(void))
{
	int status;

	rec_dir();
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0'; /* the directory is the parent's */
		program();
		_exit(99);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static char directory[64];

/* A path that a child can use: its rec_directory is empty. */
static int start(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return REC_START(.name = path);
}

static void record(void)
{
	char name[32];

	for (int i = 0; i < SCOPES; i++) {
		snprintf(name, sizeof(name), "scope_%d", i);
		proton_scope_exit(proton_scope_enter_timed(name), NULL);
	}
}

static void watch_signals(void)
{
	for (int number = 1; number <= SIGTERM; number++)
		if (number == SIGHUP || number == SIGINT || number == SIGTERM)
			signal(number, SIG_DFL);
	CHECK_DONE(proton_finalize_on_signals(&err));
}

static void check_complete(const char *name)
{
	char file[64];

	snprintf(file, sizeof(file), "%s.hatchet", name);
	CHECK(rec_load(file)->node_count > SCOPES);
	snprintf(file, sizeof(file), "%s.proton", name);
	CHECK(!rec_exists(file));
}

static void begin(void)
{
	strcpy(directory, rec_dir());
}

static void end_after_sigterm(void)
{
	start("a");
	watch_signals();
	record();
	raise(SIGTERM);
	exit(0);
}

TEST(exit_after_sigterm_waits_for_the_profile_and_ends_by_the_signal)
{
	begin();
	int status = run_child(end_after_sigterm);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	check_complete("a");
}

static void end_with_several_sessions(void)
{
	start("a");
	start("b");
	start("c");
	watch_signals();
	record();
	raise(SIGTERM);
	exit(0);
}

TEST(exit_after_sigterm_waits_for_every_session)
{
	begin();
	int status = run_child(end_with_several_sessions);
	CHECK(WIFSIGNALED(status));
	check_complete("a");
	check_complete("b");
	check_complete("c");
}

static void end_after_two_signals(void)
{
	start("a");
	watch_signals();
	record();
	raise(SIGINT);
	raise(SIGTERM);
	raise(SIGINT);
	exit(0);
}

TEST(of_several_signals_the_first_ends_the_program_once_the_profile_is_complete)
{
	begin();
	int status = run_child(end_after_two_signals);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGINT);
	check_complete("a");
}

static void end_with_the_signal_blocked(void)
{
	sigset_t set;

	start("a");
	watch_signals();
	record();
	raise(SIGTERM);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	exit(0);
}

TEST(a_program_that_blocks_the_signal_after_it_came_does_not_hang)
{
	begin();
	int status = run_child(end_with_the_signal_blocked);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	check_complete("a");
}

static void end_the_session(void)
{
	char path[128];

	CHECK(proton_is_profiling());
	CHECK_OK(proton_finalize_owned(NULL, NULL), (struct proton_error){0});
	snprintf(path, sizeof(path), "%s/called", directory);
	FILE *file = fopen(path, "wx"); /* once */
	CHECK(file);
	fclose(file);
}

static void end_by_a_function(void)
{
	start("a");
	watch_signals();
	proton_at_signal(end_the_session);
	record();
	raise(SIGTERM);
	for (;;)
		pause();
}

TEST(function_for_signals_is_called_first_and_may_end_the_session)
{
	begin();
	int status = run_child(end_by_a_function);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	CHECK(rec_exists("called"));
	check_complete("a");
}

/* ------------------------------------------------------------------ threads */

static void *finalize_all(void *unused)
{
	(void)unused;
	proton_finalize(PROTON_ALL_SESSIONS, NULL, NULL);
	return NULL;
}

static void finalize_on_a_thread(void)
{
	pthread_t thread;

	start("a");
	record();
	pthread_create(&thread, NULL, finalize_all, NULL);
	pthread_detach(thread);
	while (proton_is_profiling())
		sched_yield();
}

static void end_while_a_thread_writes(void)
{
	finalize_on_a_thread();
	exit(0);
}

TEST(exit_waits_for_a_thread_that_finalizes)
{
	begin();
	CHECK_EQ(run_child(end_while_a_thread_writes), 0);
	check_complete("a");
}

static void finalize_while_a_thread_writes(void)
{
	finalize_on_a_thread();
	proton_finalize(PROTON_ALL_SESSIONS, NULL, NULL);
	_exit(0);
}

TEST(finalize_waits_for_a_thread_that_finalizes)
{
	begin();
	CHECK_EQ(run_child(finalize_while_a_thread_writes), 0);
	check_complete("a");
}

static void *call_exit(void *unused)
{
	(void)unused;
	exit(0);
}

static void end_on_several_threads(void)
{
	pthread_t threads[4];

	start("a");
	record();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, call_exit, NULL);
	for (;;)
		pause();
}

TEST(threads_that_call_exit_at_once_leave_a_complete_profile)
{
#ifdef __SANITIZE_ADDRESS__
	/* See EXITING_THREADS_MAX; the sanitizer's own libraries fill the first block. */
	SKIP("glibc before 2.41 frees its list of exit functions twice");
#endif
	begin();
	CHECK_EQ(run_child(end_on_several_threads), 0);
	check_complete("a");
}

static void start_again_while_a_thread_writes(void)
{
	finalize_on_a_thread();
	start("a");
	proton_scope_exit(proton_scope_enter_timed("second"), NULL);
	exit(0);
}

TEST(a_session_can_start_under_a_name_that_is_still_being_written)
{
	begin();
	CHECK_EQ(run_child(start_again_while_a_thread_writes), 0);
	CHECK(rec_node(rec_load("a.hatchet"), "second") != REC_NOWHERE);
}

static void fork_while_a_signal_is_handled(void)
{
	start("a");
	watch_signals();
	record();
	raise(SIGTERM);
	if (fork() == 0)
		exit(0);
	exit(0);
}

TEST(a_child_forked_while_a_signal_is_handled_ends)
{
	int ends[2], status;
	char byte;

#ifdef __SANITIZE_ADDRESS__
	SKIP("sanitizer locks that a thread holds at fork() stay locked");
#endif
	begin();
	CHECK_EQ(pipe(ends), 0);
	status = run_child(fork_while_a_signal_is_handled);
	CHECK(WIFSIGNALED(status));
	close(ends[1]);
	CHECK_EQ(read(ends[0], &byte, 1), 0); /* until the other end is closed everywhere */
	close(ends[0]);
	check_complete("a");
}
