/* Sessions with data="trace": trace events of the program's threads. */
#include "unit/recorded_trace.h"

#include <sched.h>
#include <semaphore.h>

#include "base/clock.h"
#include "record/sets/session.h"

static bool is_within(const struct row_event *inner, const struct row_event *outer)
{
	return outer->start_ns <= inner->start_ns && inner->end_ns <= outer->end_ns;
}

TEST(scopes_are_events_that_nest)
{
	uint64_t before_ns = clock_real_ns();
	const struct row_event *outer, *inner;
	uint64_t tokens[2];

	trace_start("a");
	tokens[0] = proton_scope_enter("outer");
	tokens[1] = proton_scope_enter("inner");
	proton_scope_exit(tokens[1], NULL);
	tokens[1] = proton_scope_enter("inner");
	proton_scope_exit(tokens[1], NULL);
	proton_scope_exit(tokens[0], NULL);
	struct profile *profile = rec_finish();
	CHECK_U64(count_events(profile), 3);
	outer = need_event(profile, EVENT_SCOPE, "outer");
	inner = need_event(profile, EVENT_SCOPE, "outer/inner");
	CHECK(find_event(profile, EVENT_SCOPE, "outer/inner", 1));
	CHECK(is_within(inner, outer));
	CHECK(inner->end_ns && inner->start_ns <= inner->end_ns);
	/* Unix time: a jump of the clock by ten seconds during the test is not expected. */
	CHECK(outer->start_ns + 10000000000u > before_ns);
	CHECK(outer->end_ns < clock_real_ns() + 10000000000u);
}

TEST(a_trace_has_the_tree_of_a_tree)
{
	struct proton_metric loss = {
		.name = "loss", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5};

	trace_start("a");
	uint64_t token = proton_scope_enter("step");
	proton_metrics_add(proton_scope_context(token), &loss, 1, NULL);
	rec_kernel("k");
	rec_kernel("k");
	proton_scope_exit(token, NULL);
	struct profile *profile = rec_finish();
	CHECK_U64(rec_count(profile, "step/k"), 2);
	CHECK(rec_value(profile, "step", "loss"));
}

TEST(a_kernel_of_the_host_is_an_event_of_its_thread)
{
	const struct row_event *kernel, *op;
	struct proton_context where;

	trace_start("a");
	rec_kernel("plain");
	proton_op_enter(proton_frame("named", 5), &where);
	rec_kernel("raw");
	proton_op_exit();
	struct profile *profile = rec_finish();
	CHECK_U64(count_events(profile), 3);
	CHECK_U64(need_event(profile, EVENT_KERNEL, "plain")->link, 0);
	op = need_event(profile, EVENT_LAUNCH, "named");
	kernel = need_event(profile, EVENT_KERNEL, "named");
	CHECK(op->flags & EVENT_NAMED);
	CHECK_EQ(kernel->link, op - profile->trace->events);
	CHECK_EQ(kernel->lane, op->lane);
	CHECK(is_within(kernel, op));
	CHECK_EQ(profile->trace->lanes[kernel->lane].kind, LANE_THREAD);
}

TEST(metrics_go_to_the_event_they_were_given_to)
{
	struct proton_metric first = {.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = 1};
	struct proton_metric second = {
		.name = "text", .type = PROTON_METRIC_STRING, .value.string = "yes"};
	const double numbers[] = {1.5, 2.5};
	struct proton_metric third = {.name = "v",
				      .type = PROTON_METRIC_DOUBLE_VECTOR,
				      .count = 2,
				      .value.float64s = numbers};
	uint64_t token;
	double value;

	trace_start("a");
	for (int i = 0; i < 2; i++) {
		token = proton_scope_enter("step");
		first.value.int64 = 10 + i;
		proton_metrics_add(proton_scope_context(token), &first, 1, NULL);
		if (i == 1) {
			proton_metrics_add(proton_scope_context(token), &second, 1, NULL);
			proton_metrics_add(proton_scope_context(token), &third, 1, NULL);
		}
		proton_scope_exit(token, NULL);
	}
	struct profile *profile = rec_finish();
	const struct row_sample *samples = profile->trace->samples;
	const struct row_event *event =
		&profile->trace->events[find_event(profile, EVENT_SCOPE, "step", 0)];
	CHECK_EQ(samples[event->link].as.int64, 10);
	CHECK_EQ(samples[event->link].next, 0);
	event = &profile->trace->events[find_event(profile, EVENT_SCOPE, "step", 1)];
	memcpy(&value, &profile->trace->words[samples[event->link].as.vector + 2], sizeof(value));
	CHECK(value == 2.5);
	CHECK_EQ(samples[samples[samples[event->link].next].next].as.int64, 11);
	/* The tree still adds them up. */
	CHECK_EQ(rec_value(profile, "step", "n")->as.int64, 21);
}

TEST(the_time_of_a_timed_scope_is_not_a_metric_of_its_event)
{
	trace_start("a");
	uint64_t token = proton_scope_enter_timed("step");
	proton_scope_exit(token, NULL);
	struct profile *profile = rec_finish();
	CHECK(rec_value(profile, "step", "cpu_time (ns)"));
	CHECK_U64(need_event(profile, EVENT_SCOPE, "step")->link, 0);
}

TEST(a_scope_that_is_never_left_ends_with_the_one_around_it)
{
	const struct row_event *outer, *lost;

	trace_start("a");
	uint64_t token = proton_scope_enter("outer");
	proton_scope_enter("lost");
	proton_scope_exit(token, NULL);
	proton_scope_enter("open");
	struct profile *profile = rec_finish();
	outer = need_event(profile, EVENT_SCOPE, "outer");
	lost = need_event(profile, EVENT_SCOPE, "outer/lost");
	CHECK(lost->end_ns && lost->end_ns <= outer->end_ns);
	CHECK_U64(need_event(profile, EVENT_SCOPE, "open")->end_ns, 0);
}

static void *enter_and_end(void *unused)
{
	(void)unused;
	proton_scope_enter("worker");
	return NULL;
}

TEST(each_thread_has_a_track_and_its_open_scopes_end)
{
	const struct row_event *worker;
	pthread_t thread;

	trace_start("a");
	uint64_t token = proton_scope_enter("main");
	pthread_create(&thread, NULL, enter_and_end, NULL);
	pthread_join(thread, NULL);
	proton_scope_exit(token, NULL);
	struct profile *profile = rec_finish();
	worker = need_event(profile, EVENT_SCOPE, "main/worker");
	CHECK(worker->end_ns != 0);
	const struct row_lane *lanes = profile->trace->lanes;
	CHECK_U64(profile->trace->lane_count, 2);
	CHECK_EQ(lanes[need_event(profile, EVENT_SCOPE, "main")->lane].number, 0);
	CHECK_EQ(lanes[worker->lane].number, 1);
	CHECK(lanes[0].id != lanes[1].id);
}

static void add_number(uint64_t token, int64_t number)
{
	struct proton_metric metric = {
		.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = number};

	CHECK_EQ(proton_metrics_add(proton_scope_context(token), &metric, 1, NULL), PROTON_OK);
}

static sem_t added;

static void *add_while_locked(void *gate)
{
	uint64_t token = proton_scope_enter("step");

	for (int i = 1; i <= 2; i++) /* makes the rows of the metric, and reserves others */
		add_number(token, i);
	pthread_barrier_wait(gate);
	pthread_barrier_wait(gate); /* now the session is locked */
	for (int i = 3; i <= 5; i++)
		add_number(token, i);
	sem_post(&added); /* its end takes the lock */
	return NULL;
}

/* The numbers that were added to the first event of scope `path`, the newest first. */
static uint64_t numbers_of(const struct profile *profile, const char *path, int64_t numbers[8])
{
	const struct row_sample *samples = profile->trace->samples;
	uint32_t at = need_event(profile, EVENT_SCOPE, path)->link;
	uint64_t count = 0;

	for (; at && count < 8; at = samples[at].next)
		numbers[count++] = samples[at].as.int64;
	return count;
}

TEST(a_further_metric_of_a_scope_takes_no_lock_of_the_session)
{
	struct timespec soon;
	pthread_barrier_t gate;
	pthread_t thread;
	int64_t numbers[8];
	int id = trace_start("a");

	sem_init(&added, 0, 0);
	pthread_barrier_init(&gate, NULL, 2);
	pthread_create(&thread, NULL, add_while_locked, &gate);
	pthread_barrier_wait(&gate);
	struct session *session = registry_get(id, NULL);
	CHECK(session);
	pthread_mutex_lock(&session->lock);
	pthread_mutex_unlock(&registry.lock);
	pthread_barrier_wait(&gate);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 10;
	int late = sem_timedwait(&added, &soon);
	pthread_mutex_unlock(&session->lock);
	pthread_join(thread, NULL);
	CHECK_EQ(late, 0);
	rec_finalize(id, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(numbers_of(profile, "step", numbers), 5);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(numbers[i], 5 - i);
	CHECK_EQ(rec_value(profile, "step", "n")->as.int64, 15);
}

#define WORKERS 4
#define ROUNDS 5000

static void *work(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		uint64_t token = proton_scope_enter("outer");

		rec_kernel("k");
		add_number(token, i);
		proton_scope_exit(token, NULL);
	}
	return NULL;
}

TEST(many_threads_lose_no_event_and_no_metric_of_one)
{
	int64_t sum = 0;
	pthread_t threads[WORKERS];
	uint64_t ended = 0;

	trace_start("a");
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	struct profile *profile = rec_finish();
	CHECK_U64(count_events(profile), 2 * WORKERS * ROUNDS);
	for (uint64_t row = 1; row < profile->trace->event_count; row++) {
		const struct row_event *event = trace_event(profile->trace, row);

		ended += event && event->end_ns >= event->start_ns;
		if (!event || event->kind != EVENT_SCOPE)
			continue;
		CHECK(event->link && !profile->trace->samples[event->link].next);
		sum += profile->trace->samples[event->link].as.int64;
	}
	CHECK_U64(ended, 2 * WORKERS * ROUNDS);
	CHECK_EQ(sum, WORKERS * (ROUNDS * (ROUNDS - 1LL) / 2));
	CHECK_EQ(rec_value(profile, "outer", "n")->as.int64, sum);
	CHECK_U64(rec_count(profile, "outer/k"), WORKERS * ROUNDS);
}

static _Atomic bool stop_working;
static _Atomic int worked;

static void *work_until_stopped(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop_working)) {
		uint64_t token = proton_scope_enter("busy");

		rec_kernel("k");
		add_number(token, 1);
		proton_scope_exit(token, NULL);
		atomic_fetch_add(&worked, 1);
	}
	return NULL;
}

TEST(sessions_end_and_start_while_threads_write)
{
	pthread_t threads[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work_until_stopped, NULL);
	for (int i = 0; i < 40; i++) {
		int trace = trace_start(i % 2 ? "a" : "b");
		int tree = rec_start("tree");

		for (int n = 0; n < 200; n++)
			rec_kernel("main");
		rec_finalize(trace, i % 3 ? "chrome_trace" : "perfetto");
		rec_finalize(tree, "none");
	}
	atomic_store(&stop_working, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK(rec_exists("a.chrome_trace"));
	CHECK(rec_exists("b.pftrace"));
}

TEST(phases_of_a_trace_are_read_and_cleared_while_threads_add_metrics)
{
	pthread_t threads[2];
	int trace = trace_start("a");
	uint64_t with_metric = 0;

	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work_until_stopped, NULL);
	for (uint32_t phase = 0; phase < 30 || atomic_load(&worked) < 1000; phase++) {
		int before = atomic_load(&worked);
		size_t length;
		char *bytes;

		rec_kernel("main");
		/* Two rounds of work may have begun in earlier phases; the third is in this one. */
		while (phase % 3 == 0 && atomic_load(&worked) < before + 3)
			sched_yield();
		CHECK_EQ(proton_phase_advance(trace, NULL, NULL), PROTON_OK);
		CHECK_EQ(proton_data_get(trace, phase, "hatchet", &bytes, &length, NULL),
			 PROTON_OK);
		proton_free(bytes);
		if (phase % 3)
			CHECK_EQ(proton_phase_clear(trace, phase, false, NULL), PROTON_OK);
	}
	atomic_store(&stop_working, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	rec_finalize(trace, "proton");
	struct profile *profile = rec_load("a.proton");
	const struct row_event *events = profile->trace->events;
	for (uint64_t row = 1; row < profile->trace->event_count; row++) {
		if (!trace_event(profile->trace, row) || events[row].kind != EVENT_SCOPE ||
		    !events[row].link)
			continue; /* a number for a cleared phase is counted as lost */
		with_metric++;
		CHECK_LE(events[row].link, profile->trace->sample_count - 1);
		CHECK_EQ(profile->trace->samples[events[row].link].as.int64, 1);
		CHECK_EQ(profile->trace->samples[events[row].link].next, 0);
	}
	CHECK(with_metric > 0);
}

TEST(a_session_that_ends_inside_a_scope_keeps_it_open_and_others_continue)
{
	int first;

	first = trace_start("first");
	trace_start("second");
	uint64_t token = proton_scope_enter("step");
	rec_finalize(first, "proton");
	trace_start("third"); /* takes the place of the first */
	proton_scope_exit(token, NULL);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	struct profile *profile = rec_load("first.proton");
	CHECK_U64(need_event(profile, EVENT_SCOPE, "step")->end_ns, 0);
	profile = rec_load("second.proton");
	CHECK(need_event(profile, EVENT_SCOPE, "step")->end_ns != 0);
	profile = rec_load("third.proton");
	CHECK_U64(count_events(profile), 0);
}

TEST(a_paused_session_gets_no_events)
{
	int session = trace_start("a");

	proton_deactivate(session, false, NULL);
	uint64_t token = proton_scope_enter("unseen");
	proton_activate(session, NULL);
	proton_scope_exit(token, NULL);
	token = proton_scope_enter("seen");
	proton_deactivate(session, false, NULL);
	proton_scope_exit(token, NULL); /* its end is recorded nevertheless */
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(count_events(profile), 1);
	CHECK(need_event(profile, EVENT_SCOPE, "seen")->end_ns != 0);
}

TEST(a_tree_has_no_events)
{
	rec_start("tree");
	trace_start("trace");
	rec_kernel("k");
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	struct profile *profile = rec_load("tree.proton");
	CHECK(!profile->trace);
	profile = rec_load("trace.proton");
	CHECK_U64(count_events(profile), 1);
}

TEST(a_scope_may_be_open_while_the_phase_advances)
{
	uint32_t phase;
	int session = trace_start("a");
	uint64_t token = proton_scope_enter("long");

	rec_kernel("early");
	CHECK_EQ(proton_phase_advance(session, &phase, NULL), PROTON_OK);
	rec_kernel("late");
	proton_scope_exit(token, NULL);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK(need_event(profile, EVENT_SCOPE, "long")->end_ns != 0);
	CHECK_EQ(need_event(profile, EVENT_SCOPE, "long")->epoch, 0);
	CHECK_EQ(need_event(profile, EVENT_KERNEL, "long/early")->epoch, 0);
	CHECK_EQ(need_event(profile, EVENT_KERNEL, "long/late")->epoch, 1);
}

TEST(each_phase_is_written_with_its_events_unless_it_was_cleared)
{
	uint32_t phase;
	char *bytes;
	size_t length;
	int session = trace_start("a");

	rec_kernel("first_phase");
	proton_phase_advance(session, &phase, NULL);
	rec_kernel("second_phase");
	proton_phase_advance(session, &phase, NULL);
	rec_kernel("third_phase");
	proton_phase_clear(session, 1, false, NULL);
	CHECK_DONE(proton_data_get(session, 0, "chrome_trace", &bytes, &length, &err));
	CHECK(memmem(bytes, length, "first_phase", 11));
	CHECK(!memmem(bytes, length, "third_phase", 11));
	proton_free(bytes);
	rec_finalize(session, "");
	CHECK(rec_exists("a.part_0.chrome_trace"));
	CHECK(!rec_exists("a.part_1.chrome_trace"));
	CHECK(rec_exists("a.part_2.chrome_trace"));
}

static void record_events(void)
{
	trace_start("a");
	uint64_t token = proton_scope_enter("outer");
	for (int i = 0; i < 1000; i++)
		rec_kernel("k");
	for (int i = 1; i <= 3; i++)
		add_number(token, i);
}

TEST(kill_9_loses_no_event)
{
	int64_t numbers[8];

	rec_end_child(record_events, SIGKILL);
	struct profile *profile = rec_load("a.proton");
	CHECK(profile->is_unfinished);
	CHECK(!profile->is_damaged);
	CHECK_U64(count_events(profile), 1001);
	CHECK_U64(need_event(profile, EVENT_SCOPE, "outer")->end_ns, 0);
	CHECK(find_event(profile, EVENT_KERNEL, "outer/k", 999));
	/* Unused rows that the thread had reserved are no samples of any event. */
	CHECK_U64(numbers_of(profile, "outer", numbers), 3);
	CHECK_EQ(numbers[0], 3);
	CHECK_EQ(numbers[2], 1);
	CHECK_LT(4, profile->trace->sample_count);
}

TEST(a_forked_child_records_its_own_events)
{
	int status;

	trace_start("parent");
	proton_scope_enter("outer");
	pid_t pid = fork();
	if (pid == 0) {
		trace_start("child");
		rec_kernel("k");
		rec_finalize(PROTON_ALL_SESSIONS, "proton");
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	CHECK_EQ(status, 0);
	struct profile *profile = rec_load("child.proton");
	CHECK_U64(count_events(profile), 1);
	profile = rec_load("parent.proton");
	CHECK_U64(count_events(profile), 1);
}

TEST(formats_that_need_events_are_refused_for_trees)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.format = "chrome_trace",
		.backend = "host",
	};
	struct proton_error err;
	int session;

	CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_INVALID);
	CHECK_STR(err.text, "output format chrome_trace needs a session with data=\"trace\"");
	session = rec_start("a");
	CHECK_EQ(proton_finalize(PROTON_ALL_SESSIONS, "perfetto", &err), PROTON_E_INVALID);
	CHECK(proton_is_profiling()); /* nothing was ended */
	rec_finalize(session, "none");
}

TEST(a_trace_can_be_written_in_every_format)
{
	static const char *const formats[][2] = {
		{"", "a.chrome_trace"},    {"chrome_trace", "a.chrome_trace"},
		{"perfetto", "a.pftrace"}, {"hatchet", "a.hatchet"},
		{"proton", "a.proton"},    {"hatchet_msgpack", "a.hatchet_msgpack"},
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		trace_start("a");
		rec_kernel("k");
		rec_finalize(PROTON_ALL_SESSIONS, formats[i][0]);
		CHECK(rec_exists(formats[i][1]));
		unlink(rec_path(formats[i][1]));
	}
}

TEST(more_traces_than_the_limit_are_rejected)
{
	struct proton_error err;
	char name[32];

	for (int i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		trace_start(name);
	}
	CHECK_EQ(trace_start_as("t4", "host", "shadow", &err), -1);
	CHECK_STR(err.text, "cannot start: the limit of 4 live traces is reached");
	rec_kernel("k");
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	for (int i = 0; i < 4; i++) {
		struct profile *profile;

		snprintf(name, sizeof(name), "t%d.proton", i);
		profile = rec_load(name);
		CHECK_U64(count_events(profile), 1);
	}
}
