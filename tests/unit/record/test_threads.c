/* record/ under many threads; also run with ThreadSanitizer. */
#include "unit/recorded.h"

#define THREADS 64
#define ROUNDS (TAP_IS_SANITIZED ? 200 : 2000)

static _Atomic bool stop;

static void *enter_scopes(void *data)
{
	char name[32];

	snprintf(name, sizeof(name), "thread%d", (int)(intptr_t)data);
	for (int i = 0; i < ROUNDS; i++) {
		struct proton_metric metric = {
			.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = 1};
		uint64_t own = proton_scope_enter(name);
		uint64_t shared = proton_scope_enter(i % 2 ? "odd" : "even");

		rec_kernel("k");
		proton_metrics_add(proton_context_here(), &metric, 1, NULL);
		proton_scope_exit(shared, NULL);
		proton_scope_exit(own, NULL);
	}
	return NULL;
}

TEST(every_launch_of_every_thread_is_counted_once)
{
	pthread_t threads[THREADS];
	char path[64];

	rec_start("a");
	rec_start("b");
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, enter_scopes, (void *)(intptr_t)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	for (int s = 0; s < 2; s++) {
		struct profile *profile = rec_load(s ? "b.proton" : "a.proton");
		for (int i = 0; i < THREADS; i++) {
			snprintf(path, sizeof(path), "thread%d/odd/k", i);
			CHECK_U64(rec_count(profile, path), (uint64_t)ROUNDS / 2);
			snprintf(path, sizeof(path), "thread%d/even", i);
			CHECK_EQ(rec_value(profile, path, "n")->as.int64, ROUNDS / 2);
		}
	}
}

static void *record_until_stopped(void *data)
{
	uint32_t seed = (uint32_t)(intptr_t)data;

	for (int i = 1; !atomic_load(&stop); i++) {
		char name[16];
		uint64_t token;

		snprintf(name, sizeof(name), "s%u", (seed = seed * 1664525 + 1013904223) >> 24);
		token = proton_scope_enter_timed(name);
		proton_state_enter("state");
		rec_kernel("k");
		proton_state_exit();
		proton_scope_exit(token, NULL);
		if (i % 20 == 0) /* the thread with the sessions gets its turns on few processors */
			usleep(2000);
	}
	return NULL;
}

TEST(sessions_may_come_and_go_while_threads_record)
{
	pthread_t threads[16];

	rec_dir();
	for (int i = 0; i < 16; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, record_until_stopped,
					(void *)(intptr_t)i),
			 0);
	for (int round = 0; round < (TAP_IS_SANITIZED ? 15 : 100); round++) {
		int a = rec_start("a");
		int b = rec_start("b");
		char *bytes;
		size_t length;

		proton_deactivate(a, round % 2, NULL);
		CHECK_DONE(proton_phase_advance(b, NULL, &err));
		proton_activate(a, NULL);
		CHECK_DONE(proton_data_get(b, 1, NULL, &bytes, &length, &err));
		proton_free(bytes);
		CHECK_DONE(proton_phase_clear(b, 0, true, &err));
		rec_finalize(round % 3 ? a : b, NULL);
		rec_finalize(PROTON_ALL_SESSIONS, "hatchet_msgpack");
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 16; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void *fork_sometimes(void *data)
{
	(void)data;
	while (!atomic_load(&stop)) {
		pid_t pid = fork();

		if (pid == 0) {
			rec_kernel("child");
			proton_scope_exit(proton_scope_enter("child"), NULL);
			_exit(0);
		}
		if (pid > 0)
			waitpid(pid, NULL, 0);
	}
	return NULL;
}

TEST(fork_while_threads_record_never_hangs)
{
	pthread_t threads[5];
	struct timespec pause_time = {.tv_nsec = 300000000};

	if (!tap_is_forking)
		SKIP("ThreadSanitizer does not follow a fork with threads");
	rec_start("a");
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, record_until_stopped,
					(void *)(intptr_t)i),
			 0);
	CHECK_EQ(pthread_create(&threads[4], NULL, fork_sometimes, NULL), 0);
	nanosleep(&pause_time, NULL);
	atomic_store(&stop, true);
	for (int i = 0; i < 5; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
}
