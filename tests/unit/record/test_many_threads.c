/*
 * Many threads that record into one session: they lose nothing, and each of them writes to
 * its own cache lines and pages: a line that two processors write slows both.
 */
#include "unit/recorded_trace.h"

#include "base/region.h"
#include "record/sets/session.h"

#define THREADS 64
#define ROUNDS (TAP_IS_SANITIZED ? 100 : 2000)

static _Atomic bool stop;
static _Atomic int64_t added; /* numbers given by add_until_stopped() */

static void add_number(int64_t number)
{
	struct proton_metric metric = {
		.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = number};

	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
}

static void start_threads(pthread_t *threads, int count, void *(*work)(void *))
{
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i), 0);
}

static void join_threads(const pthread_t *threads, int count)
{
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void enter_and_add(const char *name, int64_t number)
{
	uint64_t token = proton_scope_enter(name);

	add_number(number);
	add_number(-number);
	add_number(number);
	proton_scope_exit(token, NULL);
}

/* Alternates between a scope of this thread and one that all have. */
static void *enter_own_and_common(void *data)
{
	char name[32];

	snprintf(name, sizeof(name), "thread%d", (int)(intptr_t)data);
	for (int i = 1; i <= ROUNDS; i++) {
		enter_and_add(name, i);
		enter_and_add("common", i);
	}
	return NULL;
}

static int compare_starts(const void *a, const void *b)
{
	const struct row_event *one = *(const struct row_event *const *)a;
	const struct row_event *other = *(const struct row_event *const *)b;

	if (one->start_ns != other->start_ns)
		return one->start_ns < other->start_ns ? -1 : 1;
	return one < other ? -1 : one > other;
}

/* Checks that the events of each track, by time, have the numbers that they were given. */
static void check_tracks(const struct profile *profile)
{
	const struct profile_trace *trace = profile->trace;
	const struct row_event **events = calloc(trace->event_count, sizeof(*events));
	int64_t events_of[THREADS] = {0};
	size_t count = 0;

	CHECK(events);
	CHECK_U64(trace->lane_count, THREADS);
	for (uint64_t row = 1; row < trace->event_count; row++)
		if (trace_event(trace, row))
			events[count++] = trace_event(trace, row);
	/* Rows are in no order: a thread may get rows that another one has not used. */
	qsort(events, count, sizeof(*events), compare_starts);
	for (size_t i = 0; i < count; i++) {
		const struct row_event *event = events[i];
		const struct row_sample *sample;
		int64_t number;

		CHECK_LT(event->lane, THREADS);
		number = 1 + events_of[event->lane]++ / 2;
		CHECK(event->end_ns >= event->start_ns);
		sample = &trace->samples[event->link];
		CHECK_EQ(sample->as.int64, number);
		sample = &trace->samples[sample->next];
		CHECK_EQ(sample->as.int64, -number);
		sample = &trace->samples[sample->next];
		CHECK_EQ(sample->as.int64, number);
		CHECK_EQ(sample->next, 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(events_of[i], 2 * ROUNDS);
	free(events);
}

TEST(events_and_metrics_of_64_threads_in_a_trace_are_exact_and_in_order)
{
	const int64_t sum = ROUNDS * (ROUNDS + 1LL) / 2;
	pthread_t threads[THREADS];
	int session = trace_start("a");
	char name[32];

	start_threads(threads, THREADS, enter_own_and_common);
	join_threads(threads, THREADS);
	CHECK_U64(rec_counter(session, "metric values"), 6ull * THREADS * ROUNDS);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	for (int i = 0; i < THREADS; i++) {
		snprintf(name, sizeof(name), "thread%d", i);
		CHECK_EQ(rec_value(profile, name, "n")->as.int64, sum);
	}
	CHECK_EQ(rec_value(profile, "common", "n")->as.int64, THREADS * sum);
	check_tracks(profile);
}

static void *add_until_stopped(void *data)
{
	char name[32];

	snprintf(name, sizeof(name), "thread%d", (int)(intptr_t)data);
	while (!atomic_load(&stop) && proton_is_profiling()) {
		uint64_t token = proton_scope_enter(name);

		add_number(1);
		proton_scope_exit(token, NULL);
		atomic_fetch_add(&added, 1);
	}
	return NULL;
}

/* The sum of the threads' numbers. */
static int64_t sum_of(const struct profile *profile)
{
	int64_t sum = 0;
	char name[32];

	for (int i = 0; i < THREADS; i++) {
		const struct profile_value *value;

		snprintf(name, sizeof(name), "thread%d", i);
		value = rec_value(profile, name, "n");
		sum += value ? value->as.int64 : 0;
	}
	return sum;
}

static void await_numbers(int64_t more)
{
	int64_t until = atomic_load(&added) + more;

	while (atomic_load(&added) < until)
		sched_yield();
}

TEST(a_trace_that_ends_while_64_threads_add_has_each_number_in_the_tree_and_in_an_event)
{
	pthread_t threads[THREADS];

	for (int round = 0; round < 3; round++) {
		int session = trace_start("a");
		struct profile *profile;
		int64_t counted;

		atomic_store(&stop, false);
		start_threads(threads, THREADS, add_until_stopped);
		await_numbers(THREADS);
		rec_finalize(session, "proton");
		atomic_store(&stop, true);
		join_threads(threads, THREADS);
		profile = rec_load("a.proton");
		counted = sum_of(profile);
		CHECK_LT(0, counted);
		CHECK_U64(count_samples_of_events(profile), (uint64_t)counted);
	}
}

TEST(phases_that_advance_while_64_threads_add_to_a_trace_lose_no_number)
{
	pthread_t threads[THREADS];
	int session = trace_start("a");

	start_threads(threads, THREADS, add_until_stopped);
	for (uint32_t phase = 0; phase < 10; phase++) {
		char *bytes;
		size_t length;

		await_numbers(THREADS);
		CHECK_EQ(proton_phase_advance(session, NULL, NULL), PROTON_OK);
		CHECK_EQ(proton_data_get(session, phase, "hatchet", &bytes, &length, NULL),
			 PROTON_OK);
		proton_free(bytes);
	}
	atomic_store(&stop, true);
	join_threads(threads, THREADS);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_EQ(sum_of(profile), atomic_load(&added));
	CHECK_U64(count_samples_of_events(profile), (uint64_t)atomic_load(&added));
}

static void *enter_once(void *data)
{
	enter_and_add("once", (int64_t)(intptr_t)data);
	return NULL;
}

TEST(short_threads_of_a_trace_lose_nothing_and_take_little_space)
{
	const int count = TAP_IS_SANITIZED ? 320 : 3200;
	pthread_t threads[THREADS];
	int session = trace_start("a");

	for (int i = 0; i < count; i += THREADS) {
		start_threads(threads, THREADS, enter_once);
		join_threads(threads, THREADS);
	}
	CHECK_U64(rec_counter(session, "metric values"), 3ull * (uint64_t)count);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(count_events(profile), (uint64_t)count);
	CHECK_LE(profile->trace->event_count, 64 * (uint64_t)count);
}

/* ------------------------------------------------------------------ cache lines and pages */

#define TURNS 8 /* threads that make rows in turn */
#define ROWS 3  /* values, and kernels, that each makes */

static pthread_barrier_t gate;

static void make_rows(int thread, int row)
{
	char metric[2] = {(char)('a' + row), '\0'};
	char name[32];

	snprintf(name, sizeof(name), "thread%d", thread);
	uint64_t token = proton_scope_enter(name);
	proton_metrics_add(proton_context_here(),
			   &(struct proton_metric){
				   .name = metric, .type = PROTON_METRIC_INT64, .value.int64 = 1},
			   1, NULL);
	rec_kernel(metric);
	proton_scope_exit(token, NULL);
}

/* Each row is made between rows of other threads, in each of three phases. */
static void *make_rows_in_turn(void *data)
{
	for (int phase = 0; phase < 3; phase++) {
		for (int row = 0; row < ROWS; row++)
			for (int turn = 0; turn < TURNS; turn++) {
				if (turn == (int)(intptr_t)data)
					make_rows(turn, row);
				pthread_barrier_wait(&gate);
			}
		pthread_barrier_wait(&gate); /* here the phase is checked and cleared */
	}
	return NULL;
}

/* The node below the root on the path of `node`: each thread has its own. */
static uint32_t top_of(const struct row_node *nodes, uint32_t node)
{
	while (nodes[node].parent)
		node = nodes[node].parent;
	return node;
}

/* Notes that `bytes` at `offset` of a table belong to `top`, and that no other has their lines. */
static void take_lines(uint32_t *owners, uint64_t offset, uint64_t bytes, uint32_t top)
{
	for (uint64_t line = offset / CACHE_LINE_BYTES;
	     line <= (offset + bytes - 1) / CACHE_LINE_BYTES; line++) {
		CHECK_LT(line, 1024);
		CHECK(!owners[line] || owners[line] == top);
		owners[line] = top;
	}
}

/* Checks the lines of all values and kernels; returns their number. */
static uint64_t check_lines(const struct store *store)
{
	const struct row_node *nodes = profile_file_rows(&store->file, TABLE_NODES);
	const struct row_value *values = profile_file_rows(&store->file, TABLE_VALUES);
	const struct row_kernel *kernels = profile_file_rows(&store->file, TABLE_KERNELS);
	uint32_t owners_of_values[1024] = {0};
	uint32_t owners_of_kernels[1024] = {0};
	uint64_t found = 0;

	for (uint32_t node = 1; node < store->file.tables[TABLE_NODES].rows; node++) {
		uint32_t top = top_of(nodes, node);

		for (uint32_t at = nodes[node].first_value; at; at = values[at].next, found++)
			take_lines(owners_of_values, at * sizeof(*values), sizeof(*values), top);
		for (uint32_t at = nodes[node].first_kernel; at; at = kernels[at].next, found++)
			take_lines(owners_of_kernels, at * sizeof(*kernels), sizeof(*kernels), top);
	}
	return found;
}

static void check_lines_of_session(int id)
{
	struct session *session = registry_get(id, NULL);

	CHECK(session);
	CHECK_U64(check_lines(&session->store), 2 * TURNS * ROWS);
	pthread_mutex_unlock(&registry.lock);
}

TEST(threads_add_to_rows_on_their_own_cache_lines_also_after_a_phase_was_cleared)
{
	pthread_t threads[TURNS];
	int session = rec_start("a");

	pthread_barrier_init(&gate, NULL, TURNS + 1);
	start_threads(threads, TURNS, make_rows_in_turn);
	for (uint32_t phase = 0; phase < 3; phase++) {
		for (int turn = 0; turn < ROWS * TURNS; turn++)
			pthread_barrier_wait(&gate);
		check_lines_of_session(session);
		CHECK_EQ(proton_phase_advance(session, NULL, NULL), PROTON_OK);
		CHECK_EQ(proton_phase_clear(session, phase, false, NULL), PROTON_OK);
		pthread_barrier_wait(&gate);
	}
	join_threads(threads, TURNS);
	rec_finalize(session, "none");
}

static uint64_t clear_and_count(int session, uint32_t phase)
{
	CHECK_EQ(proton_phase_advance(session, NULL, NULL), PROTON_OK);
	CHECK_EQ(proton_phase_clear(session, phase, false, NULL), PROTON_OK);
	return rec_rows("a.proton", TABLE_VALUES) + rec_rows("a.proton", TABLE_KERNELS);
}

static void *make_all_rows(void *data)
{
	for (int row = 0; row < ROWS; row++)
		make_rows((int)(intptr_t)data, row);
	return NULL;
}

TEST(rows_of_cleared_phases_are_used_again_by_new_threads)
{
	pthread_t threads[TURNS];
	int session = rec_start("a");
	uint64_t max = 0;

	/* The first phases give each group of threads its rows. */
	for (uint32_t phase = 0; phase < 60; phase++) {
		uint64_t rows;

		start_threads(threads, TURNS, make_all_rows);
		join_threads(threads, TURNS);
		rows = clear_and_count(session, phase);
		if (phase < 20)
			max = rows;
		CHECK_LE(rows, max);
	}
	rec_finalize(session, "none");
}

/* Fills rows of events in turn with the other thread. */
static void *enter_in_turn(void *data)
{
	for (int i = 0; i < 10000; i++) {
		proton_scope_exit(proton_scope_enter("scope"), NULL);
		if (i % 32 == 0)
			pthread_barrier_wait(data);
	}
	return NULL;
}

TEST(threads_of_a_trace_write_runs_of_many_rows)
{
	pthread_t threads[2];
	uint32_t changes = 0;
	uint32_t lane = 0;

	trace_start("a");
	pthread_barrier_init(&gate, NULL, 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, enter_in_turn, &gate), 0);
	join_threads(threads, 2);
	struct profile *profile = rec_finish();
	const struct profile_trace *trace = profile->trace;
	CHECK_U64(count_events(profile), 20000);
	for (uint64_t row = 1; row < trace->event_count; row++)
		if (trace_event(trace, row) && trace->events[row].lane != lane) {
			lane = trace->events[row].lane;
			changes++;
		}
	CHECK_LE(changes, 2 * 12); /* 20 reservations */
}

TEST(fields_that_every_event_reads_are_not_on_a_line_that_others_write)
{
	CHECK_EQ(offsetof(struct session, is_live) % CACHE_LINE_BYTES, 0);
	CHECK_LE(offsetof(struct session, lock) + sizeof(pthread_mutex_t),
		 offsetof(struct session, is_live));
	CHECK_EQ(offsetof(struct store, is_shared) % CACHE_LINE_BYTES, 0);
	CHECK_LT(offsetof(struct store, trace_serial), offsetof(struct store, is_shared));
	CHECK_EQ(offsetof(struct profile_file, tables) % CACHE_LINE_BYTES, 0);
	CHECK_LT(offsetof(struct profile_file, spaces), offsetof(struct profile_file, tables));
}
