/* record/adding: threads add to the same rows without a common lock, and nothing gets lost. */
#include "unit/recorded.h"

#include "record/names/frames.h"
#include "record/record.h"
#include "record/store/devices.h"

#define THREADS 8
#define LOOPS (TAP_IS_SANITIZED ? 2000 : 20000)

static _Atomic bool stop;
static _Atomic uint64_t recorded; /* by add_until_stopped() */

/* Timed scopes with a kernel, an integer and a float in them, all of one context. */
static void *add_to_one_context(void *data)
{
	uint32_t scope = proton_frame("scope", 5);

	long loops = data ? (long)(intptr_t)data : LOOPS;

	for (long i = 0; i < loops; i++) {
		struct proton_metric metrics[] = {
			{.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = 3},
			{.name = "x", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5},
			{.name = "last (pty)", .type = PROTON_METRIC_INT64, .value.int64 = 7},
		};
		uint64_t token = proton_scope_enter_timed_frame(scope);

		rec_kernel("k");
		proton_metrics_add(proton_context_here(), metrics, 3, NULL);
		proton_scope_exit(token, NULL);
	}
	return NULL;
}

static void run_threads(void *(*work)(void *), void *data, int count)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, work, data), 0);
	for (int i = 0; i < count; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

/* Histogram, extremes and sums agree with the count of the kernel below `path`. */
static void check_kernel(const struct profile *profile, const char *path, uint64_t count)
{
	uint32_t node = rec_node(profile, path);
	uint64_t sum = 0;

	CHECK_NE(node, REC_NOWHERE);
	const struct profile_kernel *kernel = &profile->kernels[profile->nodes[node].first_kernel];
	CHECK_U64(kernel->count, count);
	CHECK_LE(kernel->min_ns * count, kernel->total_ns);
	CHECK_LE(kernel->total_ns, kernel->max_ns * count);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		sum += profile->histograms[kernel->histogram].bucket[i];
	CHECK_U64(sum, count);
}

TEST(sums_of_one_context_are_exact)
{
	const uint64_t count = (uint64_t)THREADS * LOOPS;
	int session = rec_start("a");

	run_threads(add_to_one_context, NULL, THREADS);
	CHECK_U64(rec_counter(session, "kernels"), count);
	CHECK_U64(rec_counter(session, "metric values"), 4 * count);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	check_kernel(profile, "scope/k", count);
	CHECK_U64((uint64_t)rec_value(profile, "scope", "n")->as.int64, 3 * count);
	CHECK_NEAR(rec_value(profile, "scope", "x")->as.float64, 0.5 * (double)count, 0);
	CHECK_EQ(rec_value(profile, "scope", "last")->as.int64, 7);
	/* A reader sees the sum of the threads' counters. */
	for (size_t i = 0; i < profile->counter_count; i++) {
		const char *name = profile_text(profile, profile->counters[i].name);

		if (strcmp(name, "kernels") == 0)
			CHECK_U64(profile->counters[i].value, count);
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(profile_text(profile, profile->counters[k].name), name) != 0);
	}
}

#define CONFIGS 4u

/* Records of a vendor's thread: kernels with launch configurations, each of them once in turn. */
static void *add_configs(void *device)
{
	struct execution execution = {
		.frame = frames_add(FRAME_KERNEL, "k", 1),
		.device = *(const uint32_t *)device,
		.config = {.block = {64, 1, 1}},
		.start_ns = 1000,
	};

	for (uint32_t i = 0; i < LOOPS; i++) {
		execution.config.grid[0] = 1 + i % CONFIGS;
		execution.end_ns = 1000 + execution.config.grid[0];
		record_kernel(proton_context_here(), &execution);
	}
	return NULL;
}

TEST(launch_configurations_of_several_threads_are_counted_exactly)
{
	const uint64_t count = (uint64_t)THREADS * LOOPS;
	uint32_t device = devices_add(&(struct device){.type = "CUDA", .arch = "90"});
	uint32_t found = 0;

	rec_start("a");
	run_threads(add_configs, &device, THREADS);
	struct profile *profile = rec_finish();
	check_kernel(profile, "k", count);
	for (uint32_t at = profile->kernels[profile->nodes[rec_node(profile, "k")].first_kernel]
				   .first_config;
	     at; at = profile->configs[at].next) {
		CHECK_U64(profile->configs[at].count, count / CONFIGS);
		CHECK_U64(profile->configs[at].total_ns,
			  count / CONFIGS * profile->configs[at].config.grid[0]);
		found++;
	}
	CHECK_U64(found, CONFIGS);
}

TEST(a_later_thread_may_add_to_the_same_row)
{
	int session = rec_start("a");

	add_to_one_context(NULL);
	run_threads(add_to_one_context, NULL, 1);
	run_threads(add_to_one_context, NULL, 1);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	check_kernel(profile, "scope/k", 3 * (uint64_t)LOOPS);
}

TEST(integers_of_several_threads_stay_at_the_end_of_their_range)
{
	struct proton_metric large = {
		.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = INT64_MAX - 30};
	int session = rec_start("a");
	uint64_t token = proton_scope_enter("scope");

	proton_metrics_add(proton_context_here(), &large, 1, NULL);
	proton_scope_exit(token, NULL);
	run_threads(add_to_one_context, (void *)(intptr_t)100, THREADS);
	CHECK_U64(rec_counter(session, "lost: integer metric beyond 64 bits"), THREADS * 100 - 10);
	rec_finalize(session, "proton");
	CHECK_EQ(rec_value(rec_load("a.proton"), "scope", "n")->as.int64, INT64_MAX);
}

static void *add_until_stopped(void *data)
{
	(void)data;
	while (!atomic_load(&stop)) {
		rec_kernel("k");
		atomic_fetch_add(&recorded, 1);
	}
	return NULL;
}

TEST(reading_and_clearing_phases_while_adding_loses_nothing_of_the_others)
{
	pthread_t threads[THREADS];
	uint64_t found = 0;
	uint64_t cleared = 0;
	int session = rec_start("a");
	int rounds = TAP_IS_SANITIZED ? 20 : 200;

	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, add_until_stopped, NULL), 0);
	for (int round = 0; round < rounds; round++) {
		uint32_t phase;
		struct profile *profile;
		char *bytes;
		size_t length;

		CHECK_DONE(proton_phase_advance(session, &phase, &err));
		if (round % 2)
			continue; /* kept */
		/* All kernels of two phases ago are recorded: they take microseconds. */
		if (phase < 3)
			continue;
		CHECK_DONE(proton_data_get(session, phase - 3, "hatchet", &bytes, &length, &err));
		CHECK_DONE(profile_load_bytes("data", bytes, length, &profile, &err));
		cleared += rec_count(profile, "k");
		profile_free(profile);
		proton_free(bytes);
		CHECK_DONE(proton_phase_clear(session, phase - 3, false, &err));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	found = rec_counter(session, "kernels");
	CHECK_U64(found + rec_counter(session, "lost: recorded after its phase was cleared"),
		  atomic_load(&recorded));
	rec_finalize(session, "proton");
	{
		struct profile *profile = rec_load("a.proton");

		/* A kernel may have come between reading its phase and clearing it. */
		CHECK_LE(rec_count(profile, "k") + cleared, found);
		CHECK_LE(found, rec_count(profile, "k") + cleared + 16 * (uint64_t)rounds);
	}
}

TEST(values_added_by_threads_survive_a_kill)
{
	uint64_t counted = 0;
	int status;

	rec_dir();
	pid_t child = fork();
	if (child == 0) {
		pthread_t thread;

		rec_start("a");
		for (int i = 0; i < THREADS; i++)
			pthread_create(&thread, NULL, add_until_stopped, NULL);
		while (atomic_load(&recorded) < 20000)
			sched_yield();
		kill(getpid(), SIGKILL);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	struct profile *profile = rec_load("a.proton");
	CHECK(!profile->is_damaged);
	for (size_t i = 0; i < profile->counter_count; i++)
		if (strcmp(profile_text(profile, profile->counters[i].name), "kernels") == 0)
			counted = profile->counters[i].value;
	CHECK_LE(20000, rec_count(profile, "k"));
	/* At most the unfinished update of each thread. */
	CHECK_LE(rec_count(profile, "k") - counted, THREADS);
}
