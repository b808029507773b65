/* Control from outside: commands over the socket, snapshots, and clients that mean harm. */
#include "unit/recorded.h"

#include <dirent.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/environment.h"
#include "format/control_request.h"
#include "record/nvtx/nvtx.h"

#define MANY 1000
#define REPLY_MS 20000

static char socket_path[108];

static void find_socket(const char *label)
{
	snprintf(socket_path, sizeof(socket_path), "%s/proton/%d.%s", rec_dir(), (int)getpid(),
		 label);
}

/* Listens with sessions named `label` in the test's directory. */
static void begin(const char *label)
{
	struct proton_session_options options = {
		.size = sizeof(options), .backend = "host", .flags = PROTON_SESSION_QUIET};

	setenv("XDG_RUNTIME_DIR", rec_dir(), 1);
	options.name = rec_path(label);
	CHECK_DONE(proton_listen(&options, &err));
	CHECK(proton_is_listening());
	find_socket(label);
	CHECK_EQ(access(socket_path, F_OK), 0);
}

static int connect_client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, socket_path);
	CHECK(fd >= 0);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static const char *take_reply(int fd)
{
	static _Thread_local char reply[CONTROL_REPLY_MAX + 1];
	struct pollfd event = {.fd = fd, .events = POLLIN};

	CHECK_EQ(poll(&event, 1, REPLY_MS), 1);
	ssize_t length = recv(fd, reply, CONTROL_REPLY_MAX, 0);
	close(fd);
	reply[length < 0 ? 0 : length] = '\0';
	return reply;
}

static const char *ask_bytes(const char *bytes, size_t length)
{
	int fd = connect_client();

	CHECK(fd >= 0);
	CHECK_EQ(send(fd, bytes, length, MSG_NOSIGNAL), length);
	return take_reply(fd);
}

static size_t write_request(char *bytes, enum control_command command, enum control_option option,
			    const char *value)
{
	struct control_request request = {.command = command};

	request.options[option] = value;
	size_t length = control_request_write(&request, bytes, CONTROL_REQUEST_MAX);
	CHECK(length > 0);
	return length;
}

static const char *ask_with(enum control_command command, enum control_option option,
			    const char *value)
{
	char bytes[CONTROL_REQUEST_MAX];

	return ask_bytes(bytes, write_request(bytes, command, option, value));
}

static const char *ask(enum control_command command)
{
	return ask_with(command, CONTROL_NAME, NULL);
}

static uint64_t count_kernels(const char *file)
{
	struct profile *profile = rec_load(file);
	uint64_t count = 0;

	for (size_t i = 0; i < profile->kernel_count; i++)
		count += profile->kernels[i].count;
	CHECK(!profile->is_unfinished);
	return count;
}

static size_t count_entries(const char *path)
{
	DIR *directory = opendir(path);
	size_t count = 0;

	CHECK(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

TEST(nothing_is_recorded_before_start_and_after_stop)
{
	char expected[400];

	begin("serve");
	CHECK_STR(ask(CONTROL_STATUS), "+waiting: nothing is recorded");
	rec_kernel("early");
	CHECK(!proton_is_profiling());
	snprintf(expected, sizeof(expected), "+recording to %s", rec_path("serve"));
	CHECK_STR(ask(CONTROL_START), expected);
	rec_kernel("k");
	rec_kernel("k");
	CHECK_HAS(ask(CONTROL_STATUS), "kernels: 2");
	snprintf(expected, sizeof(expected), "+%s.hatchet\nrecorded 2 kernel launches",
		 rec_path("serve"));
	CHECK_HAS(ask(CONTROL_STOP), expected);
	rec_kernel("late");
	CHECK(!proton_is_profiling());
	CHECK_U64(count_kernels("serve.hatchet"), 2);
	CHECK_STR(ask(CONTROL_STATUS), "+waiting: nothing is recorded");
}

TEST(options_of_a_command_replace_those_of_the_program)
{
	struct control_request request = {.command = CONTROL_START};
	char bytes[CONTROL_REQUEST_MAX];

	begin("a");
	request.options[CONTROL_NAME] = rec_path("other");
	request.options[CONTROL_DATA] = "trace";
	request.options[CONTROL_FORMAT] = "perfetto";
	size_t length = control_request_write(&request, bytes, sizeof(bytes));
	CHECK_HAS(ask_bytes(bytes, length), "+recording to ");
	rec_kernel("k");
	CHECK_HAS(ask(CONTROL_STOP), "/other.pftrace\n");
	CHECK(rec_exists("other.pftrace"));
	CHECK(!rec_exists("a.hatchet"));
}

TEST(a_wrong_command_changes_nothing_and_says_why)
{
	begin("a");
	CHECK_HAS(ask(CONTROL_STOP), "-nothing is recorded that proton ctl has started");
	CHECK_HAS(ask(CONTROL_SNAPSHOT), "-nothing is recorded; ");
	CHECK_HAS(ask_with(CONTROL_START, CONTROL_MODE, "nonsense"), "-");
	CHECK_HAS(ask_with(CONTROL_START, CONTROL_HOOK, "triton"), "-hooks need Python code");
	CHECK_HAS(ask_with(CONTROL_START, CONTROL_NAME, "-"), "-standard output belongs to the");
	CHECK(!proton_is_profiling());
	CHECK_HAS(ask(CONTROL_START), "+recording");
	CHECK_HAS(ask(CONTROL_START), "-already recording to ");
	CHECK_HAS(ask_with(CONTROL_STOP, CONTROL_FORMAT, "nonsense"), "-Unknown output format");
	CHECK(proton_is_profiling());
	CHECK_HAS(ask(CONTROL_STOP), "+");
}

TEST(sessions_of_the_program_are_not_stopped)
{
	begin("a");
	int session = rec_start("own");
	rec_kernel("k");
	CHECK_HAS(ask(CONTROL_STOP), "-nothing is recorded that proton ctl");
	CHECK_HAS(ask_with(CONTROL_START, CONTROL_NAME, rec_path("own")),
		  "-the program itself records to ");
	CHECK_HAS(ask(CONTROL_SNAPSHOT), "/own.snapshot_1.hatchet");
	rec_finalize(session, NULL);
	CHECK_U64(count_kernels("own.hatchet"), 1);
}

TEST(a_snapshot_is_complete_and_recording_continues)
{
	begin("a");
	ask(CONTROL_START);
	rec_kernel("k");
	CHECK_HAS(ask(CONTROL_SNAPSHOT), "/a.snapshot_1.hatchet");
	rec_kernel("k");
	CHECK_HAS(ask_with(CONTROL_SNAPSHOT, CONTROL_FORMAT, "proton"), "/a.snapshot_2.proton");
	rec_kernel("k");
	CHECK_HAS(ask_with(CONTROL_SNAPSHOT, CONTROL_NAME, rec_path("mine")), "/mine.hatchet");
	rec_kernel("k");
	CHECK_HAS(ask(CONTROL_STOP), "+");
	CHECK_U64(count_kernels("a.snapshot_1.hatchet"), 1);
	CHECK_U64(count_kernels("a.snapshot_2.proton"), 2);
	CHECK_U64(count_kernels("mine.hatchet"), 3);
	CHECK_U64(count_kernels("a.hatchet"), 4);
}

#define CONTEXTS 20000
#define SNAPSHOTS 10
#define WAITS_MAX 3 /* for pages, on a machine without memory */

struct launches {
	_Atomic bool must_end;
	_Atomic uint64_t count;
	long waits;
};

/* Launches, and counts how often the thread gave up the processor: it waited for something. */
static void *launch_kernels(void *data)
{
	struct launches *launches = data;
	struct rusage before, after;

	rec_kernel("k");
	getrusage(RUSAGE_THREAD, &before);
	while (!launches->must_end) {
		rec_kernel("k");
		launches->count++;
	}
	getrusage(RUSAGE_THREAD, &after);
	launches->waits = after.ru_nvcsw - before.ru_nvcsw;
	return NULL;
}

TEST(launches_do_not_wait_for_snapshots)
{
	static struct launches launches;
	pthread_t thread;
	int session = rec_start("a");

	for (int i = 0; i < CONTEXTS; i++) {
		char name[32];
		uint64_t scope;

		snprintf(name, sizeof(name), "scope %d", i);
		scope = proton_scope_enter(name);
		rec_kernel("k");
		proton_scope_exit(scope, NULL);
	}
	pthread_create(&thread, NULL, launch_kernels, &launches);
	while (!launches.count)
		sched_yield();
	uint64_t before = launches.count;
	for (int i = 0; i < SNAPSHOTS; i++)
		CHECK_DONE(proton_snapshot(session, rec_path("s"), i % 2 ? "proton" : "hatchet",
					   NULL, 0, &err));
	CHECK_LT(before, launches.count);
	launches.must_end = true;
	pthread_join(thread, NULL);
	if (!TAP_IS_SANITIZED)
		CHECK_LE(launches.waits, WAITS_MAX);
	CHECK_LE(CONTEXTS + before, count_kernels("s.proton"));
	rec_finalize(session, "none");
}

TEST(a_session_starts_and_ends_at_its_time)
{
	struct proton_error err;

	setenv("XDG_RUNTIME_DIR", rec_dir(), 1);
	CHECK_EQ(proton_listen_timed(0, 0, &err), PROTON_E_STATE);
	begin("a");
	CHECK_EQ(proton_listen_timed(-1, 0, &err), PROTON_E_INVALID);
	CHECK_EQ(proton_listen_timed(0, NAN, &err), PROTON_E_INVALID);
	CHECK_OK(proton_listen_timed(0, 0, &err), err);
	CHECK(proton_is_profiling());
	CHECK_HAS(ask(CONTROL_STOP), "/a.hatchet");
	CHECK_EQ(unlink(rec_path("a.hatchet")), 0);
	CHECK_OK(proton_listen_timed(0.02, 0.02, &err), err);
	while (!rec_exists("a.hatchet")) /* the test has a time limit */
		sched_yield();
	while (strcmp(ask(CONTROL_STATUS), "+waiting: nothing is recorded") != 0)
		sched_yield();
}

TEST(a_snapshot_of_a_trace_has_its_events)
{
	begin("a");
	ask_with(CONTROL_START, CONTROL_DATA, "trace");
	rec_kernel("kernel of the trace");
	CHECK_HAS(ask(CONTROL_SNAPSHOT), "/a.snapshot_1.chrome_trace");
	ask(CONTROL_STOP);

	char *text;
	size_t length;

	CHECK_DONE(
		file_read_all(rec_path("a.snapshot_1.chrome_trace"), NULL, &text, &length, &err));
	CHECK_HAS(text, "kernel of the trace");
	free(text);
}

static void *run_kernel(void *unused)
{
	rec_kernel("k");
	return NULL;
}

TEST(the_scopes_of_the_listening_thread_are_those_of_threads_without)
{
	pthread_t thread;

	begin("a");
	ask(CONTROL_START);
	uint64_t scope = proton_scope_enter("main");
	pthread_create(&thread, NULL, run_kernel, NULL);
	pthread_join(thread, NULL);
	proton_scope_exit(scope, NULL);
	ask_with(CONTROL_STOP, CONTROL_FORMAT, "proton");
	EXPECT(rec_load("a.proton"), {"main/k", 1});
}

/* ------------------------------------------------------------------ sockets and processes */

TEST(the_end_removes_the_socket_and_listening_can_begin_again)
{
	begin("a");
	proton_listen_end();
	CHECK(!proton_is_listening());
	CHECK(access(socket_path, F_OK) != 0);
	begin("b");
	CHECK_HAS(ask(CONTROL_STATUS), "+waiting");
}

/* Waits until the threads of the listener have ended. */
static void await_threads(size_t threads)
{
	uint64_t end_ns = clock_monotonic_ns() + 60000000000ull;

	while (count_entries("/proc/self/task") > threads && clock_monotonic_ns() < end_ns)
		sched_yield();
	CHECK_EQ(count_entries("/proc/self/task"), threads);
	CHECK(access(socket_path, F_OK) != 0);
}

TEST(leaving_ends_both_threads_and_listening_can_begin_again)
{
	size_t threads;

	for (int i = 0; i < 20; i++) {
		begin("serve");
		threads = count_entries("/proc/self/task") - 2;
		CHECK_HAS(ask(CONTROL_START), "+recording");
		CHECK_HAS(ask(CONTROL_LEAVE), "-a session that proton ctl has started is live");
		CHECK(proton_is_listening());
		CHECK_HAS(ask(CONTROL_STOP), "+");
		CHECK_STR(ask(CONTROL_LEAVE), "+listens no more");
		CHECK(!proton_is_listening());
		await_threads(threads);
	}
}

static void *ask_to_leave(void *unused)
{
	char bytes[CONTROL_REQUEST_MAX];
	size_t length = write_request(bytes, CONTROL_LEAVE, CONTROL_NAME, NULL);
	int fd = connect_client();

	(void)unused;
	if (fd < 0)
		return NULL; /* the program was first */
	send(fd, bytes, length, MSG_NOSIGNAL);
	take_reply(fd);
	return NULL;
}

/* Nothing is freed twice, in either order. */
TEST(leaving_while_the_program_ends_it)
{
	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		size_t threads;

		begin("serve");
		threads = count_entries("/proc/self/task") - 2;
		CHECK_EQ(pthread_create(&thread, NULL, ask_to_leave, NULL), 0);
		for (int k = 0; k < i; k++)
			sched_yield();
		proton_listen_end();
		CHECK(!proton_is_listening());
		CHECK_EQ(pthread_join(thread, NULL), 0);
		await_threads(threads);
	}
}

TEST(a_range_is_recorded_from_its_first_entry_to_its_end)
{
	struct proton_error err = {0};
	uint32_t frame = proton_scope_frame("range", 5);
	uint64_t token;

	begin("serve");
	CHECK_EQ(proton_listen_range("", &err), PROTON_E_INVALID);
	for (int way = 0; way < 4; way++) {
		CHECK_OK(proton_listen_range("range", &err), err);
		CHECK_EQ(proton_scope_enter("ran"), 0);
		CHECK_EQ(proton_scope_enter_name("rangex", 6, NULL), 0);
		CHECK(proton_range_is_awaited() && !proton_is_profiling());
		token = 0;
		if (way == 0)
			token = proton_scope_enter("range");
		else if (way == 1)
			token = proton_scope_enter_frame(frame);
		else if (way == 2)
			token = proton_scope_enter_name("rangex", 5, NULL);
		else
			CHECK_EQ(nvtx_push("range"), 0);
		CHECK(proton_is_profiling() && !proton_range_is_awaited());
		rec_kernel("k");
		CHECK_EQ(nvtx_push("range"), way == 3);
		CHECK_EQ(nvtx_pop(), way == 3);
		CHECK(proton_is_profiling());
		if (way == 3)
			CHECK_EQ(nvtx_pop(), 0);
		else
			CHECK_EQ(proton_scope_exit(token, NULL), PROTON_OK);
		CHECK(!proton_is_profiling());
		CHECK_EQ(proton_scope_enter("range"), 0);
		EXPECT(rec_load("serve.hatchet"), {"range/k", 1});
	}
	proton_listen_end();
}

TEST(an_unsafe_directory_is_not_used)
{
	struct proton_error err;
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s", rec_path("open"));
	CHECK_EQ(mkdir(path, 0755), 0);
	CHECK_EQ(runtime_directory_open(path, true, &fd, &err), PROTON_E_PERMISSION);
	CHECK_HAS(err.text, "set XDG_RUNTIME_DIR to a directory of your own");
	CHECK_EQ(chmod(path, 0700), 0);
	CHECK_OK(runtime_directory_open(path, true, &fd, &err), err);
	close(fd);
	CHECK_EQ(symlink(path, rec_path("link")), 0);
	CHECK_EQ(runtime_directory_open(rec_path("link"), true, &fd, &err), PROTON_E_PERMISSION);
}

TEST(a_dead_socket_is_replaced_and_a_live_one_is_kept)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	CHECK_EQ(mkdir(rec_path("proton"), 0700), 0);
	find_socket("a");
	strcpy(address.sun_path, socket_path);
	CHECK_EQ(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	begin("a"); /* it does not listen */
	CHECK_HAS(ask(CONTROL_STATUS), "+waiting");
	proton_listen_end();
	close(fd);

	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(listen(fd, 1), 0);
	begin("a");
	snprintf(socket_path, sizeof(socket_path), "%s/proton/%d-2.a", rec_dir(), (int)getpid());
	CHECK_HAS(ask(CONTROL_STATUS), "+waiting");
	close(fd);
}

TEST(a_forked_child_does_not_listen_and_leaves_the_parent_alone)
{
	begin("a");
	pid_t pid = fork();
	if (pid == 0) {
		struct proton_session_options options = {.size = sizeof(options)};
		char path[108];

		if (proton_is_listening())
			_exit(2);
		options.name = rec_path("child");
		if (proton_listen(&options, NULL) != PROTON_OK || !proton_is_listening())
			_exit(3);
		snprintf(path, sizeof(path), "%s/proton/%d.child", rec_dir(), (int)getpid());
		strcpy(socket_path, path);
		if (strncmp(ask(CONTROL_STATUS), "+waiting", 8) != 0)
			_exit(4);
		proton_listen_end();
		_exit(access(path, F_OK) == 0 ? 5 : 0);
	}
	int status = tap_wait(pid, 60);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	CHECK_HAS(ask(CONTROL_STATUS), "+waiting");
}

TEST(a_program_that_closes_its_descriptors_still_listens)
{
	if (TAP_IS_SANITIZED)
		SKIP("the listener may share the program's descriptors");
	size_t before = count_entries("/proc/self/fd");
	begin("a");
	CHECK_EQ(count_entries("/proc/self/fd"), before);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	CHECK_HAS(ask(CONTROL_STATUS), "+waiting");
}

/* ------------------------------------------------------------------ clients that mean harm */

TEST(broken_requests_get_an_error)
{
	static const char half[] = CONTROL_PROTOCOL "\0sto";
	static char large[CONTROL_REQUEST_MAX * 2];

	begin("a");
	CHECK_HAS(ask_bytes(half, sizeof(half) - 1), "-the request is incomplete");
	CHECK_HAS(ask_bytes("GET / HTTP/1.1\r\n", 17), "-the request is not of ");
	CHECK_HAS(ask_bytes(large, sizeof(large)), "-the request is longer than 16384 bytes");
	CHECK_HAS(ask_with(CONTROL_START, CONTROL_CONTEXT, "\33[2J"), "-");
	CHECK_HAS(ask(CONTROL_STATUS), "+waiting");
	CHECK(!proton_is_profiling());
}

TEST(clients_that_send_nothing_are_dropped_and_counted)
{
	static int fds[MANY];
	struct pollfd event = {.events = POLLIN};
	uint64_t begin_ns, own_ns;
	char byte;

	begin("a");
	begin_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	own_ns = clock_thread_ns();
	for (int i = 0; i < MANY; i++)
		fds[i] = connect_client(); /* waits while the queue is full */
	CHECK_HAS(ask(CONTROL_STATUS), "refused or sent nothing");
	for (int i = 0; i < MANY; i++) {
		event.fd = fds[i];
		CHECK_EQ(poll(&event, 1, REPLY_MS), 1);
		CHECK(recv(fds[i], &byte, 1, MSG_DONTWAIT) <= 0);
		close(fds[i]);
	}
	/* CPU time of the threads of Proton: 1 ms per connection would be a lot. */
	CHECK_LT(clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_ns - (clock_thread_ns() - own_ns),
		 TAP_IS_SANITIZED ? 10000000000 : 1000000000);
	CHECK_HAS(ask(CONTROL_STATUS), "1000 connections");
}

TEST(a_client_that_has_gone_gets_its_command_carried_out)
{
	char bytes[CONTROL_REQUEST_MAX];
	size_t length = write_request(bytes, CONTROL_START, CONTROL_NAME, NULL);
	uint64_t end_ns = clock_monotonic_ns() + 20000000000u;

	begin("a");
	int fd = connect_client();
	CHECK_EQ(send(fd, bytes, length, 0), length);
	close(fd);
	while (!proton_is_profiling() && clock_monotonic_ns() < end_ns)
		sched_yield();
	CHECK(proton_is_profiling());
	while (strncmp(ask(CONTROL_STOP), "-busy", 5) == 0)
		CHECK(clock_monotonic_ns() < end_ns);
	CHECK(!proton_is_profiling());
}

struct clients {
	_Atomic bool must_end;
	unsigned seed;
};

/* Sends what clients send, and what they do not. */
static void *disturb(void *arg)
{
	struct clients *clients = arg;
	unsigned state = clients->seed;

	while (!clients->must_end) {
		char bytes[CONTROL_REQUEST_MAX];
		size_t length;
		int fd;

		state = state * 1664525u + 1013904223u;
		length = write_request(bytes, (enum control_command)(state >> 30), CONTROL_NAME,
				       NULL);
		if ((state >> 20) % 3 == 0)
			bytes[(state >> 8) % length] ^= (char)(1 << (state >> 5) % 8);
		if ((state >> 22) % 5 == 0)
			length = (state >> 10) % length;
		fd = connect_client();
		if (fd < 0)
			continue;
		send(fd, bytes, length, MSG_NOSIGNAL);
		if ((state >> 24) % 2)
			take_reply(fd);
		else
			close(fd);
	}
	return NULL;
}

TEST(the_program_records_while_clients_send_anything)
{
	static struct clients clients[4];
	pthread_t threads[4];

	begin("a");
	int session = rec_start("own");
	for (unsigned i = 0; i < 4; i++) {
		clients[i].seed = i * 7919 + 1;
		pthread_create(&threads[i], NULL, disturb, &clients[i]);
	}
	for (int i = 0; i < (TAP_IS_SANITIZED ? 20000 : 200000); i++)
		rec_kernel("k");
	for (int i = 0; i < 4; i++)
		clients[i].must_end = true;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	rec_finalize(session, NULL);
	CHECK_U64(count_kernels("own.hatchet"), TAP_IS_SANITIZED ? 20000 : 200000);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}
