/* Reader threads with a fake driver: many launches, reused buffers, faults, fork, ends. */
#include "unit/fakes.h"
#include "unit/intra/instrumented.h"
#include "unit/recorded_trace.h"

#include <dirent.h>
#include <limits.h>
#include <sched.h>

#include "backend/intra/launch_queue.h"
#include "model/trace_events.h"

#define FUNCTION 0x1234
#define OTHER_FUNCTION 0x5678
#define STREAM 7
#define CTAS 4
#define ALWAYS UINT32_MAX

/* The linker replaces the function that counts cores with this one. */
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
static uint32_t core_count = 4 * READER_THREADS_MAX;

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	CHECK_U64(bytes, sizeof(*set));
	CPU_ZERO(set);
	for (uint32_t i = 0; i < core_count; i++)
		CPU_SET(i, set);
	return 0;
}

/* And puts this one before the function that starts threads. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
static bool has_no_threads;
static _Atomic int threads_left = INT_MAX;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument)
{
	if (has_no_threads || atomic_fetch_sub(&threads_left, 1) <= 0)
		return EAGAIN;
	return __real_pthread_create(thread, attributes, run, argument);
}

static struct {
	void (*hold_events)(bool is_held);
	size_t (*device_bytes)(void);
	void (*set_capture)(uint64_t stream, int status);
	void (*fail)(const char *name, uint32_t first, uint32_t count, int code);
	uint32_t (*calls)(const char *name);
} fake;

static size_t device_bytes_of_graphs; /* with --no-fork: never freed */

static void load_fake(void)
{
	void *handle = fake_open("PROTON_CUDA_PATH");

	fake_find(&fake.hold_events, handle, "fake_hold_events");
	fake_find(&fake.device_bytes, handle, "fake_device_bytes");
	fake_find(&fake.set_capture, handle, "fake_set_capture");
	fake_find(&fake.fail, handle, "fake_fail");
	fake_find(&fake.calls, handle, "fake_calls");
}

static int start(const char *data)
{
	load_fake();
	return instrumented_start(data, NULL);
}

static void flush(int session)
{
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
}

static struct profile *finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	CHECK_U64(fake.device_bytes(), device_bytes_of_graphs);
	return rec_load("a.proton");
}

static int64_t value_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	return value ? value->as.int64 : 0;
}

/* Number of reader threads. */
static uint32_t worker_count(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	uint32_t count = 0;

	CHECK(tasks);
	while ((task = readdir(tasks))) {
		char path[300];
		char name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file))
			count += strcmp(name, "proton-intra\n") == 0;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return count;
}

/* ------------------------------------------------------------------ a kernel */

/* Scopes "load" (code 1) and "dot" (2), whole executions. */
static void add_kernel(struct instrument_layout *layout, uint64_t function, const char *name,
		       uint32_t units, uint32_t ring_bytes, uint32_t slack_bytes)
{
	layout_fini(layout); /* of the last one */
	*layout = (struct instrument_layout){
		.unit_count = units,
		.warps_per_unit = 1,
		.warp_count = units,
		.ring_bytes = ring_bytes,
		.slack_bytes = slack_bytes,
		.cta_stride = 1,
		.units = {0, 1, 2, 3, 4, 5, 6, 7},
	};
	layout->cta_bytes = instrumented_cta_bytes(layout);
	layout_scope(layout, "load", 4);
	layout_scope(layout, "dot", 3);
	layout_code(layout, 0, INSTRUMENT_SCOPE);
	layout_code(layout, 1, INSTRUMENT_SCOPE);
	instrumented_add(layout, function, name);
}

static uint8_t *cta_at(const struct instrument_layout *layout, uint64_t address, uint32_t slot)
{
	return (uint8_t *)(uintptr_t)address + (size_t)slot * layout->cta_bytes;
}

static void put(const struct instrument_layout *layout, uint8_t *cta, uint32_t unit, uint32_t place,
		uint64_t clock, uint32_t code, uint32_t cycles)
{
	struct instrument_record record = {(uint32_t)clock, code << 24 | cycles};

	memcpy(cta + layout_ring_at(layout, unit) + (size_t)place * sizeof(record), &record,
	       sizeof(record));
}

static void end_unit(const struct instrument_layout *layout, uint8_t *cta, uint32_t unit,
		     uint64_t start_clock, uint32_t count)
{
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.start_ns = 1000000,
		.start_clock = start_clock,
		.end_ns = 1000000 + 20000,
		.end_clock = start_clock + 40000 + (uint64_t)count * 1000,
		.count = count,
	};

	memcpy(cta + layout_header_at(layout, unit), &header, sizeof(header));
}

/* Each unit executes "load" `count` times, `cycles` long; units from `ended` on do not finish. */
static void write_records(const struct instrument_layout *layout, uint64_t address, uint32_t ctas,
			  uint32_t count, uint32_t cycles, uint32_t ended)
{
	for (uint32_t slot = 0; slot < ctas; slot++) {
		uint8_t *cta = cta_at(layout, address, slot);

		for (uint32_t unit = 0; unit < layout->unit_count; unit++) {
			for (uint32_t i = 0; i < count; i++)
				put(layout, cta, unit, i, 1000 + i * 1000, 1, cycles);
			if (unit < ended)
				end_unit(layout, cta, unit, 0, count);
		}
	}
}

/* One launch of CTAS CTAs with two executions per unit; the address of its buffer, or 0. */
static uint64_t launch_of(const struct instrument_layout *layout, uint64_t function,
			  uint32_t cycles, uint32_t ended)
{
	uint64_t address = proton_instrument_buffer((size_t)CTAS * layout->cta_bytes, 128, STREAM);

	if (address)
		write_records(layout, address, CTAS, 2, cycles, ended);
	proton_instrument_launched(function, STREAM);
	return address;
}

static struct instrument_layout layout;

static uint64_t launch(void)
{
	return launch_of(&layout, FUNCTION, 100, 2);
}

/* ------------------------------------------------------------------ threads */

TEST(no_thread_before_the_first_launch)
{
	start("tree");
	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	CHECK_EQ(worker_count(), 0);
	CHECK(launch());
	struct profile *profile = finish();
	CHECK_EQ(worker_count(), 0);
	CHECK_EQ(value_of(profile, "mm/load", "cycles"), CTAS * 2 * 2 * 100);
}

/* One thread waits for the device; if other launches have ended, more are started. */
TEST(several_threads_when_launches_wait)
{
	const int launches = 100;
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	fake.hold_events(true);
	for (int i = 0; i < launches; i++)
		CHECK(launch());
	CHECK_LE(worker_count(), 1);
	fake.hold_events(false);
	flush(session);
	CHECK_LE(2, worker_count());
	CHECK_LE(worker_count(), READER_THREADS_MAX);
	struct profile *profile = finish();
	CHECK_EQ(worker_count(), 0);
	CHECK_EQ(value_of(profile, "mm/load", "cycles"), launches * CTAS * 2 * 2 * 100);
	CHECK_EQ(value_of(profile, "mm/load", "executions"), launches * CTAS * 2 * 2);
}

TEST(one_thread_on_a_small_machine)
{
	core_count = 7;
	int session = start("tree");
	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	fake.hold_events(true);
	for (int i = 0; i < 20; i++)
		CHECK(launch());
	fake.hold_events(false);
	flush(session);
	CHECK_EQ(worker_count(), 1);
	struct profile *profile = finish();
	core_count = 4 * READER_THREADS_MAX;
	CHECK_EQ(value_of(profile, "mm/load", "cycles"), 20 * CTAS * 2 * 2 * 100);
}

/* The thread that flushes reads them. */
TEST(launches_are_read_without_any_thread)
{
	int session = start("tree");

	rec_begin_saying();
	has_no_threads = true;
	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	for (int i = 0; i < 20; i++)
		CHECK(launch());
	flush(session);
	CHECK_EQ(worker_count(), 0);
	CHECK_EQ(rec_printed("cannot start a reader thread"), 1);
	for (int i = 0; i < 20; i++)
		CHECK(launch());
	struct profile *profile = finish();
	has_no_threads = false;
	CHECK_EQ(value_of(profile, "mm/load", "executions"), 40 * CTAS * 2 * 2);
}

/* The first thread reads all of them without a warning. */
TEST(launches_are_read_when_a_second_thread_cannot_start)
{
	int session = start("tree");

	rec_begin_saying();
	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	for (int round = 1; round <= 3; round++) {
		threads_left = round == 1;
		fake.hold_events(true);
		for (int i = 0; i < 100; i++)
			CHECK(launch());
		fake.hold_events(false);
		flush(session);
		CHECK_EQ(worker_count(), 1);
		CHECK_LT(atomic_load(&threads_left), 0); /* others were requested */
	}
	CHECK_EQ(rec_printed("cannot start a reader thread"), 0);
	/* When threads can be created again, there is a second one. */
	threads_left = INT_MAX;
	fake.hold_events(true);
	for (int i = 0; i < 100; i++)
		CHECK(launch());
	fake.hold_events(false);
	flush(session);
	CHECK_LE(2, worker_count());
	struct profile *profile = finish();
	CHECK_EQ(worker_count(), 0);
	CHECK_EQ(value_of(profile, "mm/load", "executions"), 400 * CTAS * 2 * 2);
	CHECK_EQ(value_of(profile, "mm/load", "cycles"), 400 * CTAS * 2 * 2 * 100);
}

/* A flush waits for all earlier launches, even if a later one is read first. */
TEST(a_flush_waits_for_every_thread)
{
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	for (int i = 1; i <= 200; i++) {
		CHECK(launch());
		CHECK(launch());
		flush(session);
	}
	CHECK_EQ(value_of(finish(), "mm/load", "executions"), 400 * CTAS * 2 * 2);
}

/* Slices that the session of `launches` would keep; the 4th launch as if it were read 4th. */
TEST(traces_do_not_depend_on_which_thread_is_faster)
{
	static const uint32_t counts[] = {100000, 600000, 300000, 95000};
	uint64_t seen[4] = {0};

	start("trace");
	add_kernel(&layout, FUNCTION, "mm", 1, 8 << 20, 16);
	fake.hold_events(true);
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t address = proton_instrument_buffer(layout.cta_bytes, 128, STREAM);

		CHECK(address);
		write_records(&layout, address, 1, counts[i], i + 1, 1);
		proton_instrument_launched(FUNCTION, STREAM);
	}
	fake.hold_events(false);
	struct profile *profile = finish();
	CHECK(profile->trace);
	for (uint64_t i = 1; i < profile->trace->event_count; i++) {
		const struct row_event *event = trace_event(profile->trace, i);

		if (event && event->kind == EVENT_SECTION && event->detail >= 1 &&
		    event->detail <= 4)
			seen[event->detail - 1]++;
	}
	CHECK_U64(seen[0], counts[0]);
	CHECK_U64(seen[1], counts[1]);
	CHECK_U64(seen[2], 0); /* at most 800,000 slices of a kernel */
	CHECK_U64(seen[3], counts[3]);
}

/* ------------------------------------------------------------------ reused buffers */

/* Records and headers of the previous launch are not used. */
TEST(unit_that_does_not_finish_in_a_reused_buffer)
{
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	uint64_t first = launch_of(&layout, FUNCTION, 100, 2);
	flush(session);
	CHECK_U64(launch_of(&layout, FUNCTION, 1000, 1), first);
	flush(session);
	CHECK_U64(launch_of(&layout, FUNCTION, 10000, 0), first);
	CHECK_EQ(value_of(finish(), "mm/load", "cycles"), CTAS * 2 * 2 * 100 + CTAS * 1 * 2 * 1000);
}

/* Only headers are cleared, by copies of rows; the driver's memset kernel never runs. */
TEST(buffers_are_not_filled_between_launches)
{
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	CHECK(launch());
	flush(session);
	fake.fail("cuMemsetD8Async", 0, 0, 0);
	fake.fail("cuMemcpy2DAsync_v2", 0, 0, 0);
	for (int i = 0; i < 10; i++) {
		CHECK(launch());
		flush(session);
	}
	uint32_t fills = fake.calls("cuMemsetD8Async");
	CHECK_EQ(fills, 0);
	CHECK_EQ(fake.calls("cuMemcpy2DAsync_v2"), 10);
	finish();
}

/* One layout has records where the other has headers. */
TEST(a_buffer_changes_between_layouts)
{
	static struct instrument_layout other;
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 512, 64);
	add_kernel(&other, OTHER_FUNCTION, "other", 8, 64, 32);
	CHECK_EQ(layout.cta_bytes, other.cta_bytes);
	uint64_t first = launch_of(&layout, FUNCTION, 1, 2);
	for (int i = 0; i < 3; i++) {
		flush(session);
		CHECK_U64(launch_of(&other, OTHER_FUNCTION, 100, 5), first);
		flush(session);
		CHECK_U64(launch_of(&layout, FUNCTION, 10000, 1), first);
	}
	struct profile *profile = finish();
	CHECK_EQ(value_of(profile, "mm/load", "cycles"),
		 CTAS * 2 * 2 * 1 + 3 * CTAS * 1 * 2 * 10000);
	CHECK_EQ(value_of(profile, "other/load", "cycles"), 3 * CTAS * 5 * 2 * 100);
}

/* Records of one layout that look like a header of the other: a clock equal to the magic number. */
TEST(records_that_look_like_a_header)
{
	static struct instrument_layout other;
	uint8_t *cta;
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 512, 64);
	add_kernel(&other, OTHER_FUNCTION, "other", 1, 1024, 192);
	CHECK_EQ(layout.cta_bytes, other.cta_bytes);
	CHECK_EQ(layout_header_at(&layout, 1), layout_ring_at(&other, 0));
	uint64_t first = launch_of(&layout, FUNCTION, 100, 2);
	flush(session);
	CHECK_U64(proton_instrument_buffer((size_t)CTAS * other.cta_bytes, 128, STREAM), first);
	for (uint32_t slot = 0; slot < CTAS; slot++) {
		cta = cta_at(&other, first, slot);
		for (uint32_t i = 0; i < 8; i++)
			put(&other, cta, 0, i, INSTRUMENT_MAGIC + (uint64_t)i * 1000, 1, 10 + i);
		end_unit(&other, cta, 0, INSTRUMENT_MAGIC - 100, 8);
	}
	proton_instrument_launched(OTHER_FUNCTION, STREAM);
	flush(session);
	CHECK_U64(launch_of(&layout, FUNCTION, 10000, 1), first);
	struct profile *profile = finish();
	CHECK_EQ(value_of(profile, "other/load", "executions"), CTAS * 8);
	CHECK_EQ(value_of(profile, "mm/load", "executions"), CTAS * (2 + 1) * 2);
}

/*
 * A ring buffer of 16 that was written 18 times. The last two records are at its beginning or, if
 * they belong to a group that started at its end, in the slack area.
 */
static void write_wrapped(uint64_t address, bool is_in_slack, uint64_t last_clock, uint32_t code)
{
	uint8_t *cta = cta_at(&layout, address, 0);

	for (uint32_t i = 0; i < 16; i++)
		put(&layout, cta, 0, i, 1000 + i * 1000, 1, 10);
	for (uint32_t i = 0; i < 2; i++)
		put(&layout, cta, 0, is_in_slack ? 16 + i : i, last_clock + i * 100, code, 10);
	end_unit(&layout, cta, 0, 0, 18);
}

/* A record that an earlier launch left in the slack area seems newer than the ring buffer's. */
TEST(slack_area_of_an_earlier_launch)
{
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 1, 128, 16);
	uint64_t first = proton_instrument_buffer(layout.cta_bytes, 128, STREAM);
	write_wrapped(first, true, 40000, 2);
	proton_instrument_launched(FUNCTION, STREAM);
	flush(session);
	CHECK_U64(proton_instrument_buffer(layout.cta_bytes, 128, STREAM), first);
	write_wrapped(first, false, 20000, 1);
	proton_instrument_launched(FUNCTION, STREAM);
	struct profile *profile = finish();
	CHECK_EQ(value_of(profile, "mm/dot", "executions"), 2); /* of the first launch */
	CHECK_EQ(value_of(profile, "mm/load", "executions"), 14 + 16);
}

TEST(graphs_are_cleared_too)
{
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	fake.set_capture(STREAM, 1);
	uint64_t address = proton_instrument_buffer((size_t)CTAS * layout.cta_bytes, 128, STREAM);
	proton_instrument_launched(FUNCTION, STREAM);
	fake.set_capture(0, 0);
	write_records(&layout, address, CTAS, 2, 100, 2);
	flush(session);
	flush(session); /* no replay in between: no sample */
	write_records(&layout, address, CTAS, 2, 1000, 1);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	device_bytes_of_graphs = fake.device_bytes();
	CHECK_EQ(value_of(rec_load("a.proton"), "mm/load", "cycles"),
		 CTAS * 2 * 2 * 100 + CTAS * 1 * 2 * 1000);
}

/* ------------------------------------------------------------------ faults */

static const char *const calls[] = {
	"cuCtxGetDevice",       "cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuCtxSynchronize",
	"cuDeviceGetAttribute", "cuDeviceGetName",    "cuEventCreate",       "cuEventDestroy_v2",
	"cuEventQuery",         "cuEventRecord",      "cuEventSynchronize",  "cuMemAlloc_v2",
	"cuMemFreeHost",        "cuMemFree_v2",       "cuMemHostAlloc",      "cuMemcpy2DAsync_v2",
	"cuMemcpyDtoHAsync_v2", "cuMemsetD8Async",    "cuStreamCreate",      "cuStreamDestroy_v2",
	"cuStreamSynchronize",
};

/* The session's loss counter. */
static uint64_t missing(int session)
{
	struct proton_counter counters[32];
	int count = proton_statistics(session, counters, 32, NULL);
	uint64_t sum = rec_counter(session, "launches of instrumented kernels not sampled");

	for (int i = 0; i < count; i++)
		if (counters[i].is_loss)
			sum += counters[i].value;
	return sum;
}

static int64_t executions_after(int launches, uint64_t *missing_out)
{
	int64_t executions;
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	fake.hold_events(true);
	for (int i = 0; i < launches; i++)
		launch();
	fake.hold_events(false);
	flush(session);
	*missing_out = missing(session);
	struct profile *profile = rec_finish();
	executions = value_of(profile, "mm/load", "executions");
	return executions;
}

/* The program continues, each launch is counted once, and after the fault all works. */
static void try_fault(const char *call, uint32_t first, uint32_t count)
{
	const int whole = 6 * CTAS * 2 * 2;
	uint64_t printed;

	load_fake();
	fake.fail(call, first, count, 999);
	int64_t executions = executions_after(6, &printed);
	if (executions > whole || executions % (CTAS * 2 * 2) || (executions < whole && !printed))
		FAIL("%s, call %u: %" PRId64 " executions of %d", call, first, executions, whole);
	fake.fail(call, 0, 0, 0);
	executions = executions_after(6, &printed);
	if (executions != whole)
		FAIL("%s: %" PRId64 " executions of %d after the fault", call, executions, whole);
}

/* Memory that cannot be freed, or is the parent's, is not checked for leaks. */
static void leave_child(void)
{
	rec_clean();
	_exit(0);
}

static void in_child(const char *call, uint32_t first, uint32_t count)
{
	int status;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		*rec_directory = '\0';
		try_fault(call, first, count);
		leave_child();
	}
	CHECK_LT(0, pid);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("%s, call %u, %s: see above", call, first, count == 1 ? "once" : "always");
}

TEST(every_call_of_the_driver_may_fail)
{
	load_fake();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		in_child(calls[i], 1, 1);
		in_child(calls[i], 2, 1);
		in_child(calls[i], 3, 1);
		in_child(calls[i], 1, ALWAYS);
	}
}

/* Memsets are slower than copies of rows, but correct. */
TEST(buffers_are_cleared_by_memset_without_row_copies)
{
	int session = start("tree");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	fake.fail("cuMemcpy2DAsync_v2", 1, ALWAYS, 999);
	CHECK(launch());
	flush(session);
	launch_of(&layout, FUNCTION, 1000, 1);
	struct profile *profile = finish();
	fake.fail("cuMemcpy2DAsync_v2", 0, 0, 0);
	CHECK_EQ(value_of(profile, "mm/load", "cycles"), CTAS * 2 * 2 * 100 + CTAS * 1 * 2 * 1000);
}

/* ------------------------------------------------------------------ fork and the end */

static void run_in_child(void)
{
	/* Sanitizers' own locks that another thread held at fork() are held in the child. */
	if (TAP_IS_SANITIZED)
		_exit(0);
	*rec_directory = '\0';
	fake.hold_events(false);
	start("tree");
	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	CHECK(launch());
	CHECK_EQ(value_of(rec_finish(), "mm/load", "executions"), CTAS * 2 * 2);
	leave_child();
}

TEST(a_fork_while_threads_read)
{
	int session = start("tree");
	int status;

	skip_if_emulated("the emulator starts no thread in a forked child");
	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	fake.hold_events(true);
	for (int i = 0; i < 40; i++)
		CHECK(launch());
	fake.hold_events(false);
	flush(session); /* several threads by now */
	for (int i = 0; i < 40; i++)
		CHECK(launch());
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		run_in_child();
	CHECK_LT(0, pid);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_EQ(value_of(finish(), "mm/load", "executions"), 80 * CTAS * 2 * 2);
}

static atomic_bool may_end;
static atomic_int launched; /* with a buffer */

static void *launch_on(void *unused)
{
	(void)unused;
	while (!atomic_load(&may_end))
		atomic_fetch_add(&launched, launch() != 0);
	return NULL;
}

TEST(session_ends_while_launches_continue)
{
	pthread_t threads[2];

	for (int round = 0; round < 3; round++) {
		start("tree");
		add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
		atomic_store(&may_end, false);
		atomic_store(&launched, 0);
		for (int i = 0; i < 2; i++)
			pthread_create(&threads[i], NULL, launch_on, NULL);
		while (atomic_load(&launched) < 200)
			usleep(1000);
		rec_finalize(PROTON_ALL_SESSIONS, "proton");
		CHECK_EQ(worker_count(), 0);
		atomic_store(&may_end, true);
		for (int i = 0; i < 2; i++)
			pthread_join(threads[i], NULL);
		struct profile *profile = rec_load("a.proton");
		CHECK_LE(CTAS * 2 * 2, value_of(profile, "mm/load", "executions"));
		CHECK_EQ(value_of(profile, "mm/load", "executions") % (CTAS * 2 * 2), 0);
	}
	/* Buffers that the device may have been using at the end are leaked. */
	if (TAP_IS_SANITIZED && tap_is_forking)
		leave_child();
}

/* ------------------------------------------------------------------ other sessions */

/* The session that ends first has another backend: ending it waits for all backends. */
TEST(the_end_of_a_session_waits_for_every_backend)
{
	int session = start("tree");
	int other = rec_start("host");

	add_kernel(&layout, FUNCTION, "mm", 2, 128, 16);
	CHECK_EQ(proton_deactivate(session, false, NULL), PROTON_OK);
	for (int i = 0; i < 50; i++)
		CHECK(launch());
	rec_finalize(other, "proton");
	struct profile *profile = rec_load("host.proton");
	CHECK_EQ(value_of(profile, "mm/load", "executions"), 50 * CTAS * 2 * 2);
	profile = finish();
	CHECK(!rec_value(profile, "mm/load", "executions"));
}
