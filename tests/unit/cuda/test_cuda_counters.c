/* Counters of kernels, with the fake libcupti (tests/fake/cupti_range.c has its sources). */
#include "unit/cuda/cuda_session.h"

#include <math.h>
#include <pthread.h>

#include "backend/cuda/callbacks.h"
#include "base/clock.h"

#define MODE "default:counters=roofline"
#define TIME_NS 1000u

static uint8_t gpu0, gpu0_second, gpu1 = 1;
static int functions[8]; /* their addresses are handles */

static int start_counting(void)
{
	return start_options((struct proton_session_options){.mode = MODE});
}

static struct fake_launch launch_of(const char *name, uint32_t blocks)
{
	return (struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
				    .name = name,
				    .context = &gpu0,
				    .function = &functions[0],
				    .records = 1,
				    .start_ns = 1000,
				    .end_ns = 1000 + TIME_NS,
				    .config = {.grid = {blocks, 1, 1}, .block = {128, 1, 1}}};
}

static void run(const char *name, uint32_t blocks, uint32_t times)
{
	struct fake_launch launch = launch_of(name, blocks);

	for (uint32_t i = 0; i < times; i++)
		fake.launch(&launch);
}

static void flush(int session)
{
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
}

static double number_at(struct profile *profile, const char *path, const char *name)
{
	const struct profile_value *value = rec_value(profile, path, name);

	return value ? value->as.float64 : 0;
}

static struct profile *finish_counting(void)
{
	struct profile *profile = finish();

	CHECK(fake.ranges_are_idle());
	return profile;
}

TEST(a_kernel_has_the_work_of_its_measured_launches)
{
	int session = start_counting();

	run("mm_bf16", 10, 20);
	flush(session);
	CHECK_U64(fake.ranges(), 3);
	CHECK_U64(rec_counter(session, "kernels measured by counters"), 3);
	struct profile *profile = finish_counting();
	CHECK_U64(rec_count(profile, "mm_bf16"), 17);
	CHECK(number_at(profile, "mm_bf16", "counter_flops16") == 17 * 10 * 2e6);
	CHECK(number_at(profile, "mm_bf16", "counter_tensor_flops") == 17 * 10 * 2e6);
	CHECK(number_at(profile, "mm_bf16", "counter_bytes") == 17 * 10 * 6144.0);
	CHECK(number_at(profile, "mm_bf16", "counter_l2_bytes") == 17 * 10 * 16384.0);
	CHECK(number_at(profile, "mm_bf16", "counter_warps") == 17 * 50.0);
	CHECK(number_at(profile, "mm_bf16", "counter_launches") == 17);
	CHECK(number_at(profile, "mm_bf16", "counter_samples") == 3);
	CHECK(number_at(profile, "mm_bf16", "counter_partial_launches") == 0);
	CHECK_STR(rec_info(profile, "counters"), "roofline");
	CHECK_STR(rec_info(profile, "counters_budget"), "2 %");
	CHECK_STR(rec_info(profile, "counters_ranges"), "3");
	CHECK_STR(rec_info(profile, "counters_l2_bytes_per_clock"), "5120");
}

TEST(measured_launches_have_no_time)
{
	start_counting();
	run("mm_bf16", 10, 20);
	struct profile *profile = finish_counting();
	uint32_t node = rec_node(profile, "mm_bf16");
	const struct profile_kernel *kernel = &profile->kernels[profile->nodes[node].first_kernel];

	CHECK_U64(kernel->total_ns, 17 * TIME_NS);
	CHECK_U64(kernel->max_ns, TIME_NS); /* those of measured ones are double */
}

TEST(launch_configurations_are_measured_apart_and_places_share_their_values)
{
	uint64_t token;

	start_counting();
	token = proton_scope_enter("x");
	run("mm_bf16", 10, 20);
	proton_scope_exit(token, NULL);
	token = proton_scope_enter("y");
	run("mm_bf16", 10, 5);
	run("mm_bf16", 30, 5);
	proton_scope_exit(token, NULL);
	struct profile *profile = finish_counting();
	CHECK_U64(fake.ranges(), 6);
	CHECK(number_at(profile, "x/mm_bf16", "counter_bytes") == 17 * 10 * 6144.0);
	/* 5 of 10 blocks, and 2 of 30: three of these were measured. */
	CHECK(number_at(profile, "y/mm_bf16", "counter_bytes") == (5 * 10 + 2 * 30) * 6144.0);
	CHECK(number_at(profile, "y/mm_bf16", "counter_launches") == 7);
	CHECK(number_at(profile, "y/mm_bf16", "counter_samples") == 3);
}

TEST(a_kernel_that_runs_once_keeps_its_time_and_is_counted)
{
	int session = start_counting();

	run("once", 1, 1);
	flush(session);
	CHECK_U64(fake.ranges(), 0);
	CHECK_U64(rec_counter(session, "kernels without counters"), 1);
	struct profile *profile = finish_counting();
	CHECK_U64(rec_count(profile, "once"), 1);
	CHECK(number_at(profile, "once", "counter_launches") == 0);
}

/* Each flush reads the image, and the next launches are measured in another set. */
static double measured_at(const char *name, const char *metric, uint32_t rounds)
{
	int session = start_counting();
	struct profile *profile;
	double before;

	for (uint32_t i = 0; i < rounds; i++) {
		run(name, 10, 5);
		flush(session);
	}
	run(name, 10, 1);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	profile = finish_counting();
	before = number_at(profile, name, "counter_launches") -
		 number_at(profile, name, "counter_partial_launches");
	CHECK(before > 0);
	return number_at(profile, name, metric) / before;
}

TEST(kernels_without_common_tensor_operations_are_measured_in_other_sets)
{
	CHECK(measured_at("mm_fp16", "counter_flops16", 9) == 10 * 2e6);
	CHECK(measured_at("mm_tf32", "counter_flops32", 9) == 10 * 1e6);
	CHECK(measured_at("mm_int8", "counter_flops8", 9) == 10 * 4e6);
}

TEST(vector_operations_are_counted_of_kernels_without_tensor_operations)
{
	uint32_t before;

	load_fake();
	before = fake.ranges();
	/* 500 additions, and 1000 that are two operations each. */
	CHECK(measured_at("fma", "counter_flops32", 9) == 10 * 2500.0);
	/* The first set, the one that knows of tensor cores, and the last. */
	CHECK_U64(fake.ranges() - before, 5);
}

TEST(sets_that_are_not_read_yet_leave_partial_launches)
{
	start_counting();
	run("fma", 10, 20);
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "fma", "counter_bytes") == 17 * 10 * 6144.0);
	CHECK(number_at(profile, "fma", "counter_flops32") == 0);
	CHECK(number_at(profile, "fma", "counter_partial_launches") == 17);
}

TEST(nothing_is_measured_while_a_stream_is_captured)
{
	start_counting();
	run("mm_bf16", 10, 1);
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	run("mm_bf16", 10, 5); /* in a range, the fake would end the process */
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	CHECK_U64(fake.ranges(), 0);
	run("mm_bf16", 10, 5);
	CHECK_U64(fake.ranges(), 3);
	finish_counting();
}

TEST(kernels_of_graphs_have_the_values_of_launches_outside)
{
	struct fake_launch captured = launch_of("mm_bf16", 10);
	uint64_t node = 7ull << 32 | 1;

	start_counting();
	run("mm_bf16", 10, 5);
	captured.captures = node;
	captured.records = 0;
	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	fake.launch(&captured);
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	for (int i = 0; i < 4; i++)
		fake.launch(&(struct fake_launch){.call = CUPTI_CALL_GRAPH_LAUNCH,
						  .name = "mm_bf16",
						  .context = &gpu0,
						  .node_id = node,
						  .records = 1,
						  .start_ns = clock_monotonic_ns(),
						  .end_ns = clock_monotonic_ns() + TIME_NS});
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "<captured_at>/mm_bf16", "counter_bytes") == 4 * 10 * 6144.0);
}

static struct fake_launch other;

static void launch_other(void)
{
	fake.launch(&other);
}

TEST(a_range_with_another_launch_in_it_is_given_up)
{
	struct fake_launch launch = launch_of("mm_bf16", 10);
	int session = start_counting();

	other = launch_of("inner", 100);
	other.function = &functions[1];
	run("mm_bf16", 10, 1);
	launch.inside = launch_other;
	fake.launch(&launch);
	flush(session);
	CHECK_U64(rec_counter(session, "ranges of counters given up"), 1);
	run("mm_bf16", 10, 5);
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "mm_bf16", "counter_samples") == 3);
	/* The one before the flush had no values then. */
	CHECK(number_at(profile, "mm_bf16", "counter_bytes") == 2 * 10 * 6144.0);
}

static _Atomic bool must_end;

static void *launch_all_the_time(void *unused)
{
	struct fake_launch launch = launch_of("other", 1000);

	launch.function = &functions[2];
	while (!atomic_load(&must_end))
		fake.launch(&launch);
	return NULL;
}

TEST(launches_of_other_threads_are_kept_outside_of_ranges)
{
	uint64_t start_ns = clock_monotonic_ns();
	pthread_t thread;
	double bytes, launches;

	start_counting();
	CHECK_EQ(pthread_create(&thread, NULL, launch_all_the_time, NULL), 0);
	/* A range needs a moment in which the other one is not launching. */
	while (fake.ranges() < 6 && clock_monotonic_ns() - start_ns < 20000000000u)
		run("mm_bf16", 10, 1);
	run("mm_bf16", 10, 10);
	atomic_store(&must_end, true);
	pthread_join(thread, NULL);
	struct profile *profile = finish_counting();
	bytes = number_at(profile, "mm_bf16", "counter_bytes");
	launches = number_at(profile, "mm_bf16", "counter_launches");
	CHECK(launches > 0);
	CHECK(bytes == launches * 10 * 6144.0);
}

TEST(a_lost_range_is_measured_again)
{
	int session = start_counting();

	fake.ranges_lose(2);
	run("mm_bf16", 10, 10);
	flush(session);
	CHECK_U64(rec_counter(session, "ranges of counters given up"), 2);
	run("mm_bf16", 10, 10);
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "mm_bf16", "counter_samples") == 3);
}

TEST(more_ranges_than_an_image_takes_wait_for_the_next_one)
{
	int session = start_counting();

	for (uint32_t i = 1; i <= 30; i++)
		run("mm_bf16", i, 5);
	CHECK_U64(fake.ranges(), 64);
	flush(session);
	for (uint32_t i = 1; i <= 30; i++)
		run("mm_bf16", i, 5);
	CHECK_U64(fake.ranges(), 90);
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "mm_bf16", "counter_samples") == 90);
}

TEST(failed_launches_are_not_measured)
{
	struct fake_launch launch = launch_of("mm_bf16", 10);

	start_counting();
	run("mm_bf16", 10, 1);
	launch.result = 700;
	launch.records = 0;
	fake.launch(&launch);
	run("mm_bf16", 10, 10);
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "mm_bf16", "counter_samples") == 3);
	CHECK(number_at(profile, "mm_bf16", "counter_bytes") ==
	      number_at(profile, "mm_bf16", "counter_launches") * 10 * 6144.0);
}

static void check_refused(const char *call, int code, const char *text)
{
	rec_begin_saying();
	load_fake();
	fake.fail(call, 1, FAKE_ALWAYS, code);
	start_counting();
	run("mm_bf16", 10, 10);
	struct profile *profile = finish_counting();
	CHECK(rec_printed(text) == 1);
	CHECK(rec_count(profile, "mm_bf16") >= 7);
	CHECK(number_at(profile, "mm_bf16", "counter_launches") == 0);
}

TEST(without_permission_kernels_are_recorded_without_counters)
{
	check_refused("cuptiProfilerGetCounterAvailability", 35,
		      "counters of kernels are not read: the driver restricts profiling to "
		      "administrators");
}

TEST(a_gpu_that_another_process_measures_is_named)
{
	check_refused("cuptiRangeProfilerStart", 26,
		      "counters of kernels are not read: another process measures this GPU");
}

TEST(a_missing_host_library_is_named)
{
	check_refused("cuptiProfilerHostInitialize", 15,
		      "libnvperf_host.so has to be in the "
		      "directory");
}

TEST(a_push_that_fails_ends_the_counters)
{
	check_refused("cuptiRangeProfilerPushRange", 999, "cuptiRangeProfilerPushRange failed");
}

TEST(a_pop_that_fails_ends_the_counters)
{
	check_refused("cuptiRangeProfilerPopRange", 999, "cuptiRangeProfilerPopRange failed");
}

TEST(an_image_that_cannot_be_read_ends_the_counters)
{
	check_refused("cuptiRangeProfilerDecodeData", 8, "cuptiRangeProfilerDecodeData failed");
}

TEST(each_gpu_has_a_session_and_a_second_context_of_one_has_none)
{
	struct fake_launch launch = launch_of("mm_bf16", 20);

	rec_begin_saying();
	start_counting();
	run("mm_bf16", 10, 5);
	launch.context = &gpu1;
	launch.device = 1;
	launch.function = &functions[3];
	for (int i = 0; i < 5; i++)
		fake.launch(&launch);
	CHECK_U64(fake.ranges(), 6);
	launch.context = &gpu0_second;
	launch.function = &functions[4];
	for (int i = 0; i < 5; i++)
		fake.launch(&launch);
	CHECK_U64(fake.ranges(), 6);
	CHECK_EQ(rec_printed("counters of a second CUDA context on GPU 0 are not read"), 1);
	finish_counting();
}

TEST(a_destroyed_context_takes_its_session_along)
{
	start_counting();
	run("mm_bf16", 10, 10);
	fake.context_destroy(&gpu0);
	CHECK(fake.ranges_are_idle());
	struct profile *profile = finish_counting();
	CHECK(number_at(profile, "mm_bf16", "counter_samples") == 3);
}

TEST(collectives_are_never_measured)
{
	start_counting();
	run("ncclDevKernel_AllReduce_bf16", 10, 10);
	finish_counting();
	CHECK_U64(fake.ranges(), 0);
}

TEST(sessions_follow_each_other)
{
	for (uint32_t i = 1; i <= 3; i++) {
		start_counting();
		run("mm_bf16", 10, 10);
		struct profile *profile = finish_counting();
		CHECK(number_at(profile, "mm_bf16", "counter_bytes") == 7 * 10 * 6144.0);
		CHECK_U64(fake.ranges(), 3 * i);
	}
	start();
	run("mm_bf16", 10, 10);
	struct profile *profile = finish_counting();
	CHECK_U64(rec_count(profile, "mm_bf16"), 10);
	CHECK_U64(fake.ranges(), 9);
}

TEST(launches_are_measured_rarely_later)
{
	int session = start_counting();

	run("mm_bf16", 10, 10);
	flush(session);
	run("mm_bf16", 10, 2000);
	CHECK_U64(fake.ranges(), 4);
	finish_counting();
}

TEST(the_budget_ends_the_ranges)
{
	setenv("FAKE_RANGE_US", "300000", 1);
	start_counting();
	for (uint32_t i = 1; i <= 10; i++)
		run("mm_bf16", i, 2);
	/* 1 s may be spent at once, and 2 % of the time. */
	CHECK_LE(3, fake.ranges());
	CHECK_LE(fake.ranges(), 4);
	struct profile *profile = finish_counting();
	CHECK_LE(900000000u, strtoull(rec_info(profile, "overhead_counters_ns"), NULL, 10));
}

TEST(modes_that_do_not_exist_are_refused)
{
	struct proton_error err = {0};
	static const struct {
		const char *mode, *text;
	} bad[] = {
		{"default:counters=all", "cupti: unsupported counters: all; available: roofline"},
		{"default:counters=roofline:windows=1ms/1s",
		 "cupti: unsupported option of counters: windows=1ms/1s; available: "
		 "overhead=PERCENT%; they cannot be combined with windows"},
		{"default:counters=roofline:overhead=0%",
		 "cupti: the overhead of counters is not a share: 0%; use 1% to 100%"},
	};

	load_fake();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(start_with((struct proton_session_options){.mode = bad[i].mode}, &err),
			 -1);
		CHECK_STR(err.text, bad[i].text);
	}
}
