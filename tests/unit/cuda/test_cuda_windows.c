/* CUDA backend: windows. Most tests move their clock (windows_skip()) instead of waiting. */
#include "unit/cuda/pcs_session.h"

#include "backend/cuda/attach.h"
#include "backend/cuda/windows.h"
#include "backend/gpu/launches.h"
#include "base/clock.h"
#include "model/estimates.h"

#define MS 1000000ull
#define SECOND 1000000000ull
#define LENGTH (10 * SECOND) /* longer than the tests take */
#define MODE "default:windows=10s/1000s"

static int start_windows(const char *mode)
{
	struct proton_error err = {0};
	int session = start_mode("a", mode, &err);

	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

static void close_window(void)
{
	windows_skip(LENGTH);
}

/* The next window is within the next distance, which may have grown. */
static void open_window(void)
{
	uint32_t before = fake.calls(entry_point("cuptiActivityEnable"));

	for (int i = 0; i < 10000 && fake.calls(entry_point("cuptiActivityEnable")) == before; i++)
		windows_skip(LENGTH);
	CHECK_EQ(fake.calls(entry_point("cuptiActivityEnable")), before + 1);
}

/* Launches in this window, and one after it that is not recorded. */
static void launch_in_window(int count)
{
	for (int i = 0; i < count; i++)
		launch_ns("k", 1000);
	close_window();
	launch_ns("unseen", 1000);
}

static void replay(uint32_t exec, int count)
{
	for (int i = 0; i < count; i++)
		fake.graph_launch(exec, "node", false);
}

/* A runtime that covers every thread, as Python does. */
static bool hold(void)
{
	return true;
}

static void let_go(void)
{
}

static const struct proton_holder holder = {hold, let_go, hold};

static int64_t samples_of(const struct profile *profile, const char *path)
{
	const struct profile_value *value = rec_value(profile, path, ESTIMATES_SAMPLES);

	return value ? value->as.int64 : 0;
}

static void end_session(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

/* CUPTI does not report the end of a launch in which it was left. */
TEST(a_launch_in_which_an_earlier_session_ended_is_over)
{
	start_mode("a", NULL, NULL);
	fake.call_around(CUPTI_CALL_LAUNCH_KERNEL, end_session);
	start_windows(MODE);
	close_window();
	launch_ns("unseen", 1000);
	CHECK_U64(launches_count(), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(kernels_are_recorded_in_windows_only)
{
	start_windows(MODE);
	launch_in_window(3);
	for (int i = 0; i < 4; i++) {
		open_window();
		launch_in_window(2);
	}
	struct profile *profile = finish();
	CHECK_EQ(samples_of(profile, "k"), 11);
	CHECK_U64(rec_node(profile, "unseen"), REC_NOWHERE);
	CHECK(rec_value(profile, "k", ESTIMATES_INTERVAL));
	CHECK_STR(rec_info(profile, "windows_count"), "5");
	CHECK_STR(rec_info(profile, "cupti_attaches"), "1");
	CHECK_HAS(rec_info(profile, "windows"), "10000 ms every 1000 s");
}

TEST(a_program_without_graphs_stays_attached_between_windows)
{
	int session = start_windows(MODE);

	for (int i = 0; i < 20; i++) {
		launch_in_window(1);
		open_window();
	}
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK_EQ(fake.calls(entry_point("cuptiSubscribe")), 1);
	CHECK_U64(rec_counter(session, "kernels"), 20);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
}

TEST(cupti_is_left_between_windows_while_graphs_are_replayed_often)
{
	proton_holder_set(&holder);
	start_windows(MODE);
	uint32_t exec = make_graph();
	for (int i = 0; i < 10; i++) {
		replay(exec, 200);
		launch_ns("k", 1000);
		close_window();
		CHECK_EQ(fake.calls("cuptiFinalize"), i + 1);
		CHECK(fake.is_idle());
		replay(exec, 10);
		open_window();
	}
	struct profile *profile = finish();
	CHECK_EQ(fake.graph_result(), 0);
	/* Captured before CUPTI was left for the first time. */
	CHECK_EQ(samples_of(profile, "<captured_at>/cap/node"), 4000);
	CHECK_EQ(samples_of(profile, "k"), 10);
	for (size_t i = 0; i < profile->counter_count; i++)
		CHECK(!profile->counters[i].is_loss || !profile->counters[i].value);
	CHECK_STR(rec_info(profile, "cupti_attaches"), "11");
	replay(exec, 1);
	CHECK_EQ(fake.graph_result(), 0);
	proton_holder_set(NULL);
}

TEST(captures_are_seen_between_windows_while_cupti_stays_attached)
{
	proton_holder_set(&holder);
	start_windows(MODE);
	launch_in_window(1);
	uint32_t exec = make_graph();
	replay(exec, 5);
	open_window();
	replay(exec, 3);
	CHECK_EQ(samples_of(finish(), "<captured_at>/cap/node"), 6);
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	replay(exec, 1);
	CHECK_EQ(fake.graph_result(), 0);
	proton_holder_set(NULL);
}

/* This thread is not held: the windows are moved by another one. */
static void *skip(void *ns)
{
	windows_skip((uint64_t)(uintptr_t)ns);
	return NULL;
}

static void skip_there(uint64_t ns)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, skip, (void *)(uintptr_t)ns), 0);
	pthread_join(thread, NULL);
}

TEST(cupti_stays_attached_between_windows_if_threads_cannot_be_held)
{
	int session = start_windows(MODE);
	uint32_t exec = make_graph();

	for (uint32_t i = 0; i < 5; i++) {
		replay(exec, 200);
		skip_there(LENGTH);
		replay(exec, 10);
		while (fake.calls(entry_point("cuptiActivityEnable")) == i + 1)
			skip_there(LENGTH);
	}
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK_U64(rec_counter(session, "kernels"), 2000);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	/* Before 13.5, a window in which graphs are replayed keeps memory as well. */
	CHECK_U64(attach_memory_bytes(false), 570000 + (tests_second() ? 0 : 5 * 54000));
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	replay(exec, 1);
	CHECK_EQ(fake.graph_result(), 0);
}

/* A kernel of a graph that ran while records were enabled has a start from before. */
TEST(kernels_in_flight_when_a_window_opens_are_dropped_and_counted)
{
	struct fake_launch stale = {
		.call = CUPTI_CALL_GRAPH_LAUNCH,
		.name = "node",
		.records = 7,
		.start_ns = 5,
		.end_ns = 14000000,
	};
	int session = start_windows(MODE);

	stale.node_id = fake.graph_add_kernel(fake.graph_create());
	launch_in_window(1);
	open_window();
	fake.launch(&stale);
	launch_in_window(1);
	CHECK_U64(rec_counter(session, "kernels"), 2);
	CHECK_U64(rec_counter(session, "kernels in flight when a window was opened"), 7);
	CHECK_U64(rec_counter(session, "lost: kernel record without a timestamp"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(windows_end_when_their_gpu_memory_is_used_up)
{
	rec_begin_saying();
	proton_holder_set(&holder);
	start_windows(MODE ":memory=3MB"); /* 5 times 0.57 MB */
	uint32_t exec = make_graph();
	for (int i = 0; i < 5; i++) {
		if (i)
			open_window();
		replay(exec, 200);
		close_window();
	}
	for (int i = 0; i < 100; i++)
		windows_skip(1000 * SECOND);
	CHECK_U64(attach_memory_bytes(false), 5 * 570000);
	CHECK_EQ(rec_printed("kernels are not recorded any more: windows have used 2 MB"), 1);
	CHECK_STR(rec_info(finish(), "windows_memory_bytes"), "2850000");
	proton_holder_set(NULL);
}

TEST(the_distance_grows_with_the_memory_that_is_used)
{
	uint64_t first_ns = 0;
	uint64_t all_ns = 0;

	proton_holder_set(&holder);
	start_windows(MODE ":memory=20MB"); /* 35 times */
	uint32_t exec = make_graph();
	for (int i = 0; i < 34; i++) {
		replay(exec, 200);
		close_window();
		for (int s = 0; s < 100000 && fake.is_idle(); s++) {
			windows_skip(LENGTH);
			first_ns += i < 17 ? LENGTH : 0;
			all_ns += LENGTH;
		}
		CHECK(!fake.is_idle());
	}
	/* 17 at the distance; later ones are farther apart each time. */
	CHECK_LT(first_ns, 19000 * SECOND);
	CHECK_LT(100000 * SECOND, all_ns);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	proton_holder_set(NULL);
}

TEST(a_session_may_end_and_rest_between_windows)
{
	int session = start_windows(MODE);

	launch_in_window(2);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	usleep(1500000); /* it rests */
	windows_skip(10000 * SECOND);
	CHECK_EQ(fake.calls(entry_point("cuptiActivityEnable")), 1);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
	open_window();
	launch_in_window(1);
	struct profile *profile = finish();
	CHECK_EQ(samples_of(profile, "k"), 3);
	start_windows(MODE); /* another first window */
	launch_ns("k", 1000);
	profile = finish();
	CHECK_U64(rec_count(profile, "k"), 1);
}

TEST(a_session_that_ends_in_its_first_window_has_what_was_recorded)
{
	start_windows(MODE);
	for (int i = 0; i < 1000; i++)
		launch_ns("k", 1000);
	struct profile *profile = finish();
	CHECK_EQ(samples_of(profile, "k"), 1000);
	/* The window was closed while the session ended. */
	CHECK_LE(1000, rec_count(profile, "k"));
	CHECK_LE(rec_count(profile, "k"), 1100);
	CHECK(!rec_value(profile, "k", ESTIMATES_INTERVAL));
}

TEST(metrics_of_captured_kernels_count_by_the_weight_of_their_window)
{
	struct proton_metric flops = {
		.name = "flops", .type = PROTON_METRIC_INT64, .value.int64 = 3};
	uint32_t graph, exec;

	proton_holder_set(&holder);
	start_windows("default:windows=10s/100s");
	graph = fake.graph_create();
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	uint64_t token = proton_scope_enter("cap");
	CHECK_EQ(proton_metrics_add(proton_context_here(), &flops, 1, NULL), PROTON_OK);
	fake.graph_capture_kernel(graph, "node");
	proton_scope_exit(token, NULL);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	exec = fake.graph_instantiate(graph);
	replay(exec, 1); /* weight 1 */
	close_window();
	open_window();
	replay(exec, 1); /* weight 10, or more if the windows cost too much */
	CHECK_LE(33, value_at(finish(), "<captured_at>/cap", "flops"));
	proton_holder_set(NULL);
}

/* Steps, with a kernel each, at this distance; the window has to be open. */
static void step(int count, useconds_t us)
{
	for (int i = 0; i < count; i++) {
		proton_note_step();
		launch_ns("k", 1000);
		usleep(us);
	}
}

TEST(the_rate_of_steps_outside_corrects_that_in_windows)
{
	start_windows(MODE);
	close_window();
	for (int i = 0; i < 6; i++) {
		step(40, 1000);
		open_window();
		step(20, 3000); /* they are slower in windows */
		close_window();
	}
	struct profile *profile = finish();
	const char *slowness = rec_info(profile, "windows_slowness");
	CHECK(strtod(slowness, NULL) > 1.3);
	CHECK(strtod(slowness, NULL) < 3);
	/* 360 steps, of which 120 are in windows. */
	CHECK_EQ(samples_of(profile, "k"), 120);
	CHECK_LT(270, rec_count(profile, "k"));
	CHECK_LT(rec_count(profile, "k"), 450);
}

TEST(modes_of_windows_are_checked)
{
	static const struct {
		const char *mode, *error;
	} wrong[] = {
		{"default:windows=50ms", "the windows are not a length and a longer distance"},
		{"default:windows=5s/50ms", "the windows are not a length and a longer distance"},
		{"default:windows=50ms/5s:memory=64", "is not a size: 64; use for example 64MB"},
		{"default:windows=50ms/5s:overhead=0%", "the overhead of windows is not a share"},
		{"default:windows=50ms/5s:overhead=5", "the overhead of windows is not a share"},
		{"default:windows=50ms/5s:often", "unsupported option of windows: often"},
		{"default", "it is a mode of the backend \"instrumentation\""},
	};
	struct proton_error err;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_LT(start_mode("a", wrong[i].mode, &err), 0);
		CHECK_HAS(err.text, wrong[i].error);
	}
	CHECK_LE(0, start_mode("a", "default:windows=50ms/5s:memory=1GB:overhead=2%", &err));
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

/* ------------------------------------------------------------------ constant costs */

static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long long pages[2] = {0};

	CHECK(file);
	CHECK_EQ(fscanf(file, "%llu %llu", &pages[0], &pages[1]), 2);
	fclose(file);
	return pages[1] * 4096;
}

static int count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static uint64_t file_bytes(void)
{
	struct stat status;

	CHECK_EQ(stat(rec_path("a.proton"), &status), 0);
	return (uint64_t)status.st_blocks * 512;
}

static uint64_t many_windows(int count)
{
	uint64_t start_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (int i = 0; i < count; i++) {
		open_window();
		launch_in_window(3);
	}
	return (clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - start_ns) / (uint64_t)count;
}

TEST(nothing_grows_with_the_number_of_windows)
{
	const char *given = getenv("PROTON_TEST_WINDOWS");
	int count = given ? atoi(given) : TAP_IS_SANITIZED ? 100 : 1000;
	uint64_t bytes, resident, ns, later_ns;

	start_windows(MODE);
	launch_in_window(3);
	ns = many_windows(count / 10);
	resident = resident_bytes();
	int descriptors = count_descriptors();
	bytes = file_bytes();
	later_ns = many_windows(count);
	printf("# %d windows: %llu us each, before %llu; %+lld bytes\n", count,
	       (unsigned long long)later_ns / 1000, (unsigned long long)ns / 1000,
	       (long long)(resident_bytes() - resident));
	CHECK_EQ(count_descriptors(), descriptors);
	CHECK_U64(file_bytes(), bytes);
	/* The table of launches is touched once, 16 bytes for each. The fake keeps layouts. */
	if (!TAP_IS_SANITIZED && !tests_second())
		CHECK_LE(resident_bytes(), resident + 1000000 + 16 * 4 * (uint64_t)count);
	CHECK_LE(later_ns, 2 * ns + MS);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

/* ------------------------------------------------------------------ threads */

static _Atomic bool must_stop;

static void *launch_all_the_time(void *unused)
{
	while (!atomic_load(&must_stop)) {
		launch_function("k", NULL, 1000);
		usleep(20);
	}
	return unused;
}

static void *capture_all_the_time(void *unused)
{
	while (!atomic_load(&must_stop)) {
		uint32_t exec = make_graph();

		replay(exec, 20);
		fake.graph_exec_destroy(exec);
		usleep(50);
	}
	return unused;
}

TEST(windows_move_while_threads_launch_and_replay)
{
	pthread_t threads[4];
	int session = start_windows("default:windows=2ms/8ms:overhead=100%:memory=1GB");

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL,
					i < 2 ? launch_all_the_time : capture_all_the_time, NULL),
			 0);
	do
		usleep(1000000);
	while (rec_counter(session, "kernels") <= 100);
	atomic_store(&must_stop, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK_U64(rec_counter(session, "lost: kernel record without a known launch"), 0);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	CHECK_EQ(fake.graph_result(), 0);
}
