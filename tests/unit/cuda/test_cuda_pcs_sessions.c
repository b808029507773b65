/* CUDA backend: PC sampling over several sessions, and modules loaded before them. */
#include "unit/cuda/pcs_session.h"

#include "backend/cuda/call_gate.h"

TEST(a_second_session_gets_samples_of_a_module_loaded_between_the_two)
{
	begin_with_context();
	int session = start_sampling("pcsampling");
	launch_function("mm", NULL, 1000);
	end();
	CHECK_U64(fake.calls("cuptiPCSamplingDisable"), 1);
	CHECK_U64(fake.calls("cuptiFinalize"), 1);
	CHECK(!fake.pcs_is_started(&gpu0));
	void *module = fake.module_load("between", 8);
	session = start_sampling("pcsampling");
	CHECK(fake.pcs_is_started(&gpu0));
	launch_function("late", fake.module_function(module, "late"), 1000);
	take(fake.module_crc(module), "late", 0, "wait", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_EQ(value_at(profile, "late", "num_samples"), 5);
	/* Its cubin came at a launch. */
	CHECK_U64(profile->samples->code_object_count, 1);
}

/* Sampling is not enabled in it: sessions of records are as without PC sampling. */
TEST(a_session_of_another_mode_releases_the_contexts)
{
	begin_with_context();
	start_sampling("pcsampling");
	end();
	uint32_t enabled = fake.calls("cuptiPCSamplingEnable");
	start();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
	launch_function("mm", NULL, 1000);
	end();
	CHECK_U64(fake.calls("cuptiPCSamplingEnable"), enabled);
	CHECK_U64(fake.calls("cuptiPCSamplingDisable"), 1);
	CHECK_U64(fake.calls("cuptiFinalize"), 2);
	int session = start_sampling("pcsampling");
	launch_function("mm", NULL, 1000);
	take(77, "mm", 0, "wait", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 5);
	end();
}

#define LAUNCHES 500 /* by each thread */

static void *launch_many(void *module)
{
	for (int i = 0; i < LAUNCHES; i++) {
		void *own = i % 100 ? NULL : fake.module_load("own", 3);

		launch_function("mm", fake.module_function(own ? own : module, "mm"), 1000);
		if (own)
			fake.module_unload(own);
	}
	return NULL;
}

TEST(sessions_of_all_modes_alternate_while_threads_launch)
{
	static const char *const modes[] = {"", "pcsampling", "pcsampling:interval=65536",
					    "pcsampling:serialized", "pcsampling:windows=1ms/5ms"};
	unsigned order = 1;

	load_fake();
	fake.context_create(&gpu0);
	for (int i = 0; i < 24; i++) {
		uint32_t mode = (uint32_t)(order = order * 1103515245 + 12345) >> 16;
		struct profile *profile;
		pthread_t other;
		void *module;

		start_sampling(modes[mode % 5]);
		module = fake.module_load("module", 6);
		CHECK_EQ(pthread_create(&other, NULL, launch_many, module), 0);
		launch_many(module);
		pthread_join(other, NULL);
		if (mode % 5)
			take(fake.module_crc(module), "mm", 0, "wait", 5);
		launch_function("last", NULL, 1000);
		profile = finish();
		CHECK_U64(rec_count(profile, "mm"), 2 * LAUNCHES);
		CHECK_U64(rec_count(profile, "last"), 1);
		launch_many(module); /* without a session */
		fake.module_unload(module);
	}
}

static _Atomic bool must_end;

static void *launch_until_the_end(void *unused)
{
	while (!atomic_load(&must_end)) {
		launch_function("mm", NULL, 1000);
		usleep(300); /* else it may lose its processor within a launch */
	}
	return unused;
}

/* If one stayed counted, CUPTI could not be left any more. */
TEST(launches_in_flight_when_sampling_ends_leave_the_gate)
{
	pthread_t threads[4];

	begin_with_context();
	for (int session = 0; session < 4; session++) {
		start_sampling("pcsampling");
		/* Launches before the first session are not counted. */
		for (int i = 0; i < 4 && session == 0; i++)
			CHECK_EQ(pthread_create(&threads[i], NULL, launch_until_the_end, NULL), 0);
		usleep(2000);
		end();
	}
	atomic_store(&must_end, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(call_gate_is_quiet());
}

static void run_on_thread(void *(*function)(void *))
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, function, NULL), 0);
	pthread_join(thread, NULL);
}

static void *launch_once(void *unused)
{
	launch_function("mm", NULL, 1000);
	return unused;
}

/* The other thread may call the driver at any moment, and CUPTI is left while it is subscribed. */
TEST(cupti_is_left_after_sampling_only_if_no_other_thread_has_launched)
{
	begin_with_context();
	start_sampling("pcsampling");
	launch_function("mm", NULL, 1000);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	start_sampling("pcsampling");
	run_on_thread(launch_once);
	end();
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
}

static void *launch_and_end(void *unused)
{
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "mm", .context = context, .inside = end});
	return unused;
}

TEST(a_launch_in_which_a_session_with_samples_ends_leaves_the_gate)
{
	begin_with_context();
	start_sampling("pcsampling");
	launch_function("mm", NULL, 1000);
	run_on_thread(launch_and_end);
	CHECK_EQ(fake.calls("cuptiFinalize"), 0);
	CHECK(call_gate_is_quiet());
}

TEST(a_second_session_may_have_another_interval)
{
	begin_with_context();
	start_sampling("pcsampling:interval=8192");
	end();
	start_sampling("pcsampling:serialized:interval=1024");
	CHECK_U64(fake.pcs_period(&gpu0), 10);
	CHECK(fake.pcs_is_serialized(&gpu0));
	end();
}

/* The fake writes to the buffer of a disabled context when another one is enabled. */
TEST(the_buffer_of_a_disabled_context_stays_valid)
{
	begin_with_context();
	start_sampling("pcsampling");
	fake.context_create(&gpu1);
	fake.context_destroy(&gpu1);
	end();
	for (int i = 0; i < 3; i++) {
		start_sampling(i % 2 ? "pcsampling" : "pcsampling:interval=4096");
		CHECK_U64(fake.pcs_period(&gpu0), i % 2 ? 14 : 12);
		launch_function("mm", NULL, 1000);
		take(77, "mm", 0, "wait", 5);
		end();
	}
	CHECK_U64(fake.calls("cuptiPCSamplingDisable"), 5);
}

TEST(a_context_that_is_destroyed_between_two_sessions_is_forgotten)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	end();
	fake.context_destroy(&gpu0);
	session = start_sampling("pcsampling");
	fake.context_create(&gpu0_second);
	CHECK_U64(fake.pcs_period(&gpu0_second), 14);
	fake.pcs_take(
		&gpu0_second,
		&(struct fake_pc){.crc = 77, .function = "mm", .reason = "wait", .samples = 5});
	launch_function("mm", NULL, 1000);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "PC samples"), 5);
	end();
}

TEST(a_context_that_is_destroyed_in_a_session_of_another_mode_is_forgotten)
{
	int session = start_sampling("pcsampling");

	fake.context_create(&gpu0);
	end();
	start();
	fake.context_destroy(&gpu0);
	end();
	session = start_sampling("pcsampling");
	fake.context_create(&gpu0_second);
	CHECK(fake.pcs_is_started(&gpu0_second));
	CHECK_U64(rec_counter(session, "PC samples"), 0);
	end();
}

/* Callbacks of one launch: its begin, its end, and MODULE_PROFILED if modules are asked for. */
static uint32_t callbacks_of_launch(void *function)
{
	atomic_store(&callbacks, 0);
	fake.set_hook(count_callback);
	launch_function("mm", function, 100000);
	fake.set_hook(NULL);
	return atomic_load(&callbacks);
}

/* The event comes for each launch and each node of a graph, and costs as much as a launch. */
TEST(modules_are_asked_for_only_while_a_sampled_function_has_no_cubin)
{
	int (*get_current)(void **context);
	void *modules[2], *functions[2];

	load_fake();
	for (int i = 0; i < 2; i++) {
		modules[i] = fake.module_load(i ? "second" : "first", 5);
		functions[i] = fake.module_function(modules[i], "mm");
	}
	unsetenv("FAKE_CUDA_NO_CONTEXT");
	fake_find(&get_current, fake_open("PROTON_CUDA_PATH"), "cuCtxGetCurrent");
	get_current(&context);
	int session = start_sampling("pcsampling");
	for (int i = 0; i < 2; i++) {
		/* The first samples end the asking; the second function begins it. */
		CHECK_EQ(callbacks_of_launch(functions[i]), i ? 2 : 3);
		take(fake.module_crc(modules[i]), "mm", 0, "wait", 5);
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		proton_activate(session, NULL);
		CHECK_EQ(callbacks_of_launch(functions[i]), i ? 3 : 2);
		launch_function("mm", functions[i], 100000);
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		proton_activate(session, NULL);
		CHECK_EQ(callbacks_of_launch(functions[i]), 2);
	}
	CHECK_U64(finish()->samples->code_object_count, 2);
}

/* The event costs as much as a launch: it must end though CUPTI never gives a cubin. */
TEST(asking_for_modules_ends_if_a_cubin_never_comes)
{
	int (*get_current)(void **context);
	uint32_t events = 0;

	load_fake();
	void *function = fake.module_function(fake.module_load("first", 5), "mm");
	unsetenv("FAKE_CUDA_NO_CONTEXT");
	fake_find(&get_current, fake_open("PROTON_CUDA_PATH"), "cuCtxGetCurrent");
	get_current(&context);
	int session = start_sampling("pcsampling");
	/* More functions than are remembered: none is new forever. */
	for (int round = 0; round < 3; round++) {
		for (uint64_t crc = 1; crc <= 100; crc++)
			take(crc, "unknown", 0, "wait", 5);
		while (callbacks_of_launch(function) == 3 && events < 100000)
			events++;
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		proton_activate(session, NULL);
	}
	CHECK(events >= 8192);
	CHECK(events < 100000);
	CHECK_EQ(callbacks_of_launch(function), 2);
	CHECK_EQ(atoi(rec_info(finish(), "pc_sampling_asked")), events);
}

static void add_cubin(const char *directory, const char *bytes)
{
	char path[64];

	CHECK_EQ(mkdir(rec_path(directory), 0700), 0);
	if (!bytes)
		return;
	snprintf(path, sizeof(path), "%s/old.cubin", directory);
	FILE *file = fopen(rec_path(path), "w");
	CHECK(file && fputs(bytes, file) >= 0 && fclose(file) == 0);
}

/* Its kernels run only in graphs: no launch gives the cubin. */
TEST(cubin_of_a_module_without_launches_is_found_in_the_cache_of_triton)
{
	char cache[256];

	snprintf(cache, sizeof(cache), "%s", rec_path("cache"));
	setenv("TRITON_CACHE_DIR", cache, 1);
	CHECK_EQ(mkdir(cache, 0700), 0);
	add_cubin("cache/own", "the cubin");
	for (int i = 0; i < 20; i++) {
		char other[32];

		snprintf(other, sizeof(other), "cache/other%d", i);
		add_cubin(other, i % 4 ? NULL : "another kernel of this name");
	}
	load_fake();
	uint64_t crc = fake.module_crc(fake.module_load("the cubin", 9));
	int session = start_sampling("pcsampling");
	fake.context_create(&gpu0);
	launch_function("other", NULL, 1000);
	take(crc, "old", 0, "wait", 5);
	take(crc + 1, "old", 0, "wait", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	struct profile *profile = finish();
	CHECK_U64(profile->samples->code_object_count, 2);
	for (int i = 0; i < 2; i++) {
		const struct profile_code_object *object = &profile->samples->code_objects[i];

		CHECK_U64(object->length, object->crc == crc ? 9 : 0);
		CHECK_EQ(object->bytes != NULL, object->crc == crc);
	}
}

/* While samples come. */
static uint64_t ns_until_reads(uint32_t count)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		take(77, "mm", 0, "wait", 1);
		usleep(1000);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (fake.calls("cuptiPCSamplingGetData") < count);
	return (uint64_t)(now.tv_sec - begin.tv_sec) * 1000000000 + (uint64_t)now.tv_nsec -
	       (uint64_t)begin.tv_nsec;
}

/* A read may make launches wait. */
TEST(reads_are_rarer_while_few_pcs_come)
{
	start_sampling("pcsampling");
	fake.context_create(&gpu0);
	ns_until_reads(4);
	uint32_t before = fake.calls("cuptiPCSamplingGetData");
	CHECK(ns_until_reads(before + 4) > 3 * 75000000ull);
	end();
}
