/*
 * CUDA backend and CUPTI's second interface: when it is used, other tools at the same time, layouts
 * of records, nodes of graphs by their source, and hardware kernel times. A cell of the table in
 * docs/design/other-tools.md is a test here or in test_cuda_coexist.
 */
#include "unit/cuda/cuda_session.h"

/* A CUPTI and a driver with several subscribers; without a wish for an interface. */
static void use_version(const char *cupti)
{
	setenv("FAKE_CUPTI_VERSION", cupti, 1);
	unsetenv("PROTON_CUPTI_INTERFACE");
	load_fake();
	rec_begin_saying();
}

static void wish(const char *interface)
{
	use_version("130500");
	setenv("PROTON_CUPTI_INTERFACE", interface, 1);
}

/* Requests of a user, and the interface that is used. */
#define WISHES 3
static const char *const wishes[WISHES] = {"", "1", "2"};
static const char *const answers[WISHES] = {"2", "1", "2"};

static void launch_many(int count)
{
	for (int i = 0; i < count; i++)
		launch_ns("k", 5);
}

static void expect_session(uint64_t kernels, const char *interface)
{
	struct profile *profile = finish();

	CHECK_U64(rec_count(profile, "k"), kernels);
	CHECK_STR(rec_info(profile, "cupti_interface"), interface);
}

static void expect_busy(const char *text)
{
	struct proton_error err = {0};

	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(err.text, text);
}

/* ------------------------------------------------------------------ the choice */

/* No interface was asked for, and no other tool uses CUPTI. */
TEST(the_second_interface_is_used_by_itself_where_several_tools_may_subscribe)
{
	use_version("130500");
	start();
	launch_many(3);
	CHECK_EQ(calls_named("cuptiSubscribe"), 0);
	CHECK_EQ(calls_named("cuptiActivityEnable"), 0);
	CHECK_EQ(fake.second_subscribe("torch-cupti-monitor", true), CUPTI_OK);
	launch_many(2);
	CHECK_EQ(fake.second_count(), 2);
	fake.second_unsubscribe();
	expect_session(5, "2");
	CHECK(fake.is_idle());
	CHECK_EQ(rec_printed("\n"), 0);
}

/* The answer of cuptiSubscribe_v2 decides. */
TEST(a_driver_that_does_not_allow_several_tools_means_the_first_interface)
{
	use_version("130500");
	setenv("FAKE_CUDA_VERSION", "13000", 1);
	start();
	launch_many(3);
	CHECK_EQ(calls_named("cuptiSubscribe_v2"), 1);
	expect_session(3, "1");
	CHECK(fake.is_idle());
	CHECK_EQ(rec_printed("\n"), 0);
	fake.other_start(); /* the first interface is free */
	launch_many(2);
	CHECK_EQ(fake.other_stop(), 2);
}

/* The refused call may have excluded the first interface all the same. */
TEST(the_second_interface_alone_is_used_if_the_first_is_refused_without_a_name)
{
	use_version("130500");
	setenv("FAKE_CUDA_VERSION", "13000", 1);
	fake.fail("cuptiSubscribe", 1, 1, CUPTI_E_MULTIPLE_SUBSCRIBERS);
	start();
	launch_many(3);
	expect_session(3, "2");
	CHECK(fake.is_idle());
}

static void expect_default(const char *cupti, const char *interface)
{
	use_version(cupti);
	start();
	launch_many(3);
	if (*interface == '1')
		CHECK_EQ(calls_named("cuptiSubscribe_v2"), 0);
	expect_session(3, interface);
	CHECK_EQ(rec_printed("\n"), 0);
}

TEST(a_cupti_before_13_3_is_used_by_the_first_interface)
{
	expect_default("130200", "1");
}

/* It crashed when several tools requested records. */
TEST(a_cupti_13_3_before_update_1_is_used_by_the_first_interface)
{
	expect_default("130300", "1");
}

TEST(a_cupti_13_3_from_update_1_on_is_used_by_the_second_interface)
{
	expect_default("130301", "2");
}

TEST(a_wish_for_the_first_interface_is_granted)
{
	wish("1");
	start();
	launch_many(3);
	CHECK_EQ(calls_named("cuptiSubscribe_v2"), 0);
	expect_session(3, "1");
	CHECK(fake.is_idle());
}

/* A process that has sampled PCs never finalizes CUPTI: torch.profiler could not start. */
TEST(pc_sampling_uses_the_first_interface)
{
	static char device;

	use_version("130500");
	REC_START(.backend = tested_backend(), .mode = "pcsampling");
	fake.context_create(&device);
	launch_many(3);
	expect_session(3, "1");
	CHECK_EQ(calls_named("cuptiSubscribe_v2"), 0);
	start(); /* CUPTI was left: later sessions can use the second */
	launch_many(2);
	expect_session(2, "2");
	CHECK(fake.other_subscribe("Kineto"));
	fake.other_start();
	launch_many(4);
	CHECK_EQ(fake.other_stop(), 4);
	fake.other_unsubscribe();
}

TEST(the_second_interface_is_used_on_request)
{
	wish("2");
	start();
	launch_many(3);
	CHECK_EQ(calls_named("cuptiActivityEnable"), 0);
	expect_session(3, "2");
	CHECK(fake.is_idle());
	CHECK_EQ(rec_printed("\n"), 0);
}

TEST(a_cupti_without_the_second_interface_is_used_by_the_first)
{
	wish("2");
	setenv("FAKE_CUPTI_VERSION", "130200", 1);
	start();
	launch_many(3);
	expect_session(3, "1");
	CHECK_EQ(rec_printed("PROTON_CUPTI_INTERFACE=2 needs CUPTI's second interface, which "
			     "CUPTI 13.2 lacks"),
		 1);
}

TEST(an_unknown_interface_is_an_error)
{
	struct proton_error err = {0};

	wish("3");
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_INVALID);
	CHECK_HAS(err.text, "PROTON_CUPTI_INTERFACE=3 is not a CUPTI interface; set it to 1 or 2");
}

TEST(an_older_driver_allows_only_proton_which_names_both_versions)
{
	wish("2");
	setenv("FAKE_CUDA_VERSION", "13000", 1);
	start();
	CHECK_EQ(
		rec_printed("CUPTI 13.5 does not allow several tools with this driver (CUDA 13.0)"),
		1);
	CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_E_MULTIPLE_SUBSCRIBERS);
	launch_many(3);
	expect_session(3, "2");
	CHECK(fake.is_idle());
}

/* ------------------------------------------------------------------ other tools */

/* PyTorch's CuptiMonitor, NVIDIA's samples, another Proton: each has all records. */
TEST(a_tool_that_shares_cupti_before_proton_and_proton_have_all_records)
{
	use_version("130500");
	CHECK_EQ(fake.second_subscribe("torch-cupti-monitor", true), CUPTI_OK);
	launch_many(2);
	start();
	CHECK_EQ(rec_printed("another tool in this process uses CUPTI (CUPTI for "
			     "torch-cupti-monitor); Proton records at the same time"),
		 1);
	launch_many(5);
	CHECK_EQ(fake.second_count(), 7);
	expect_session(5, "2");
	launch_many(3); /* Proton's end did not end the other tool */
	CHECK_EQ(fake.second_count(), 10);
	fake.second_unsubscribe();
	CHECK(fake.is_idle());
}

TEST(a_tool_that_shares_cupti_around_a_session_keeps_its_records)
{
	use_version("130500");
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_OK);
		start();
		launch_many(i);
		expect_session((uint64_t)i, "2");
		launch_many(1);
		CHECK_EQ(fake.second_count(), i + 1);
		fake.second_unsubscribe();
	}
	CHECK(fake.is_idle());
}

TEST(two_protons_in_a_process_have_all_records)
{
	use_version("130500");
	CHECK_EQ(fake.second_subscribe("Proton", true), CUPTI_OK);
	start();
	launch_many(3);
	CHECK_EQ(fake.second_count(), 3);
	expect_session(3, "2");
	launch_many(1);
	CHECK_EQ(fake.second_count(), 4);
	fake.second_unsubscribe();
}

TEST(a_tool_that_shares_cupti_during_a_session_and_proton_have_all_records)
{
	wish("2");
	start();
	launch_many(1);
	CHECK_EQ(fake.second_subscribe("torch-cupti-monitor", true), CUPTI_OK);
	launch_many(4);
	CHECK_EQ(fake.second_count(), 4);
	fake.second_unsubscribe();
	launch_many(2);
	expect_session(7, "2");
	CHECK(fake.is_idle());
}

TEST(a_tool_that_shares_cupti_may_outlive_sessions)
{
	wish("2");
	start();
	launch_many(1);
	CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_OK);
	expect_session(1, "2");
	launch_many(2);
	start();
	launch_many(3);
	expect_session(3, "2");
	CHECK_EQ(fake.second_count(), 5);
	fake.second_unsubscribe();
}

TEST(a_tool_of_the_second_interface_that_does_not_share_is_named)
{
	use_version("130500");
	CHECK_EQ(fake.second_subscribe("Loner", false), CUPTI_OK);
	expect_busy("in use by another tool in this process (CUPTI for Loner); stop that tool");
	setenv("PROTON_CUPTI_INTERFACE", "2", 1);
	expect_busy("in use by another tool in this process (CUPTI for Loner); stop that tool");
	launch_many(2);
	CHECK_EQ(fake.second_count(), 2); /* Proton's attempts took nothing */
	fake.second_unsubscribe();
	unsetenv("PROTON_CUPTI_INTERFACE");
}

TEST(a_wish_for_the_first_interface_is_not_answered_with_the_second)
{
	wish("1");
	CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_OK);
	expect_busy("in use by another tool in this process");
	fake.second_unsubscribe();
}

/* Kineto, upstream's Proton, nsys and ncu, which subscribe to the first interface or around it. */
TEST(a_subscriber_of_the_first_interface_is_named_with_either_interface)
{
	static const char *const names[] = {"Kineto", "Nsight Systems", "Nsight Compute", "Proton"};

	for (int i = 0; i < WISHES; i++) {
		wish(wishes[i]);
		for (size_t j = 0; j < sizeof(names) / sizeof(names[0]); j++) {
			CHECK(fake.other_subscribe(names[j]));
			/* From 13.3 on, only the second interface gives the name. */
			expect_busy(*wishes[i] == '1' ? "another tool" : names[j]);
			fake.other_unsubscribe();
		}
		start();
		launch_many(2);
		expect_session(2, answers[i]);
	}
}

TEST(kineto_cannot_subscribe_during_a_session_and_can_after_it)
{
	for (int i = 0; i < WISHES; i++) {
		wish(wishes[i]);
		start();
		CHECK(!fake.other_subscribe("Kineto"));
		launch_many(2);
		expect_session(2, answers[i]);
		CHECK(fake.other_subscribe("Kineto"));
		fake.other_start();
		launch_many(3);
		CHECK_EQ(fake.other_stop(), 3);
		fake.other_finalize(); /* TEARDOWN_CUPTI=1 */
		fake.other_unsubscribe();
	}
}

/* It continues without its subscription. With the first interface it takes Proton's records. */
TEST(kineto_within_a_session_gets_nothing_with_the_second_interface)
{
	for (int i = 0; i < WISHES; i++) {
		bool is_second = strcmp(answers[i], "2") == 0;
		int session;

		wish(wishes[i]);
		session = start();
		fake.other_start();
		launch_many(3);
		fake.cuda_fail("cuCtxSynchronize", 1, 1, 700); /* a short wait */
		CHECK_EQ(fake.other_stop(), is_second ? 0 : 3);
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		CHECK_U64(rec_counter(session, "lost: kernel record never received"),
			  is_second ? 0 : 3);
		rec_finalize(session, "none");
		fake.other_finalize(); /* Proton does not, after it missed records */
	}
}

/* Whatever is missing, the other tool has its own records, and may need the first interface. */
TEST(kineto_can_start_after_a_session_that_missed_records)
{
	for (int i = 0; i < WISHES; i++) {
		int session;

		wish(wishes[i]);
		session = start();
		fake.hold(true);
		launch_many(2);
		fake.cuda_fail("cuCtxSynchronize", 1, 1, 700); /* a short wait */
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		fake.hold(false);
		CHECK_U64(rec_counter(session, "lost: kernel record never received"), 2);
		rec_finalize(session, "none");
		CHECK(fake.other_subscribe("Kineto"));
		fake.other_start();
		launch_many(3);
		CHECK_EQ(fake.other_stop(), 3);
		fake.other_finalize();
		fake.other_unsubscribe();
	}
}

TEST(kineto_around_a_session_excludes_it_and_keeps_its_records)
{
	for (int i = 0; i < WISHES; i++) {
		wish(wishes[i]);
		CHECK(fake.other_subscribe("Kineto"));
		fake.other_start();
		launch_many(1);
		expect_busy("in use by another tool in this process");
		launch_many(2);
		CHECK_EQ(fake.other_stop(), 3);
		fake.other_finalize();
		fake.other_unsubscribe();
	}
}

TEST(after_kineto_used_the_first_interface_proton_uses_it_too)
{
	uint32_t tries = 0;

	use_version("130500");
	fake.other_start(); /* without teardown: its subscription is gone, its calls were made */
	launch_many(1);
	CHECK_EQ(fake.other_stop(), 1);
	for (int i = 0; i < 2; i++) {
		start();
		launch_many(2);
		expect_session(2, "1");
		tries = i ? tries : calls_named("cuptiSubscribe_v2");
	}
	CHECK_EQ(calls_named("cuptiSubscribe_v2"), tries); /* it is not tried again */
	fake.other_start();
	launch_many(3);
	CHECK_EQ(fake.other_stop(), 3);
	CHECK_EQ(rec_printed("\n"), 0);
}

/* As on an H200, where only this call fails. */
TEST(a_kind_that_the_first_interface_excludes_means_the_first_interface)
{
	use_version("130500");
	fake.fail("cuptiActivityEnable_v2", 1, 1, CUPTI_E_NOT_COMPATIBLE);
	start();
	launch_many(2);
	expect_session(2, "1");
	CHECK(fake.is_idle());
	CHECK_EQ(rec_printed("\n"), 0);
}

/* The error is that of the first interface, which was tried last. */
TEST(a_kind_that_both_interfaces_refuse_is_an_error_and_leaves_nothing)
{
	use_version("130500");
	fake.fail("cuptiActivityEnable_v2", 1, 1, CUPTI_E_HARDWARE_BUSY);
	fail_named("cuptiActivityEnable", 1, 1, CUPTI_E_HARDWARE_BUSY);
	expect_busy("another process measures this GPU (DCGM, ");
	CHECK(fake.is_idle());
	CHECK(fake.other_subscribe("Kineto"));
	fake.other_unsubscribe();
}

TEST(after_kineto_used_the_first_interface_the_second_is_an_error)
{
	wish("2");
	fake.other_start(); /* without teardown: its subscription is gone, its calls were made */
	launch_many(1);
	CHECK_EQ(fake.other_stop(), 1);
	expect_busy("has used CUPTI's first interface before, which excludes the second; unset "
		    "PROTON_CUPTI_INTERFACE");
	CHECK(fake.other_subscribe("Kineto")); /* the failed start left nothing */
	fake.other_unsubscribe();
	start();
	launch_many(2);
	expect_session(2, "2");
}

/* As on an H200 with CUPTI 13.3 and 13.5, where the other calls succeed. */
TEST(a_kind_that_the_first_interface_excludes_is_the_same_error)
{
	wish("2");
	fake.fail("cuptiActivityEnable", 1, 1, CUPTI_E_NOT_COMPATIBLE);
	expect_busy("has used CUPTI's first interface before, which excludes the second; unset "
		    "PROTON_CUPTI_INTERFACE");
	start();
	launch_many(2);
	expect_session(2, "2");
}

/* ------------------------------------------------------------------ layouts */

TEST(records_in_layouts_that_cannot_be_read_are_counted_as_lost)
{
	for (int layout = FAKE_LAYOUT_NONE; layout <= FAKE_LAYOUT_SMALL_ENTRY; layout++) {
		int session;

		wish("2");
		session = start();
		fake.set_layout(layout);
		launch_many(2);
		fake.cuda_fail("cuCtxSynchronize", 1, 1, 700); /* a short wait */
		CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
		CHECK_U64(rec_counter(session, "kernels"), 0);
		CHECK_LE(2,
			 (int)(rec_counter(session, "lost: kernel record never received") +
			       rec_counter(session, "lost: record dropped by the vendor library")));
		CHECK_LE(1, rec_printed("no CUPTI records were received"));
		fake.set_layout(FAKE_LAYOUT_GOOD);
		rec_finalize(session, "none");
		CHECK(is_resting());
		start();
		launch_many(2);
		expect_session(2, "2");
	}
}

/* ------------------------------------------------------------------ graphs */

static uint32_t capture(const char *scope)
{
	uint64_t token = proton_scope_enter(scope);
	uint32_t graph = fake.graph_create();

	fake.call(CUPTI_CALL_BEGIN_CAPTURE_V2, 0);
	fake.graph_capture_kernel(graph, "k");
	fake.call(CUPTI_CALL_END_CAPTURE, 0);
	proton_scope_exit(token, NULL);
	return graph;
}

static struct profile *replay_without_events(void)
{
	uint32_t graph, exec;

	start();
	graph = capture("captured in");
	fake.fail("cuptiGetGraphNodeId", 1, FAKE_ALWAYS, 1); /* Proton does not see the clones */
	exec = fake.graph_instantiate(graph);
	fake.fail("cuptiGetGraphNodeId", 0, 0, 0);
	fake.graph_launch(exec, "k", true);
	fake.graph_launch(exec, "k", true);
	return finish();
}

TEST(a_node_with_unknown_origin_is_attributed_by_its_source)
{
	wish("2");
	EXPECT(replay_without_events(), {"<captured_at>/captured in/k", 2});
}

TEST(before_13_4_such_a_node_is_shown_by_its_name)
{
	wish("2");
	setenv("FAKE_CUPTI_VERSION", "130300", 1);
	struct profile *profile = replay_without_events();
	CHECK_U64(rec_count(profile, "k"), 2);
	CHECK_EQ(rec_node(profile, "<captured_at>"), REC_NOWHERE);
}

/* A graph of one kernel, replayed, updated from another one, and replayed. */
static void replay_around_update(void)
{
	uint32_t first = capture("one");
	uint32_t second = capture("two");
	uint32_t exec = fake.graph_instantiate(first);

	fake.graph_launch(exec, "k", true);
	fake.graph_update(exec, second);
	fake.graph_launch(exec, "k", true);
}

TEST(a_replay_before_an_update_is_attributed_by_its_source)
{
	wish("2");
	start();
	replay_around_update(); /* no record has arrived before the update */
	struct profile *profile = finish();
	CHECK_STR(rec_info(profile, "graph_nodes_by_source"), "1");
	EXPECT(profile, {"<captured_at>/one/k", 1}, {"<captured_at>/two/k", 1});
}

TEST(sources_agree_with_the_events)
{
	wish("2");
	start();
	uint32_t exec = fake.graph_instantiate(capture("one"));
	fake.graph_launch(exec, "k", true);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "<captured_at>/one/k"), 1);
	CHECK(!rec_info(profile, "graph_nodes_by_source"));
}

/* ------------------------------------------------------------------ kernel times */

static void expect_times(const char *times)
{
	start();
	launch_many(2);
	struct profile *profile = finish();
	CHECK_U64(rec_count(profile, "k"), 2);
	CHECK_STR(rec_info(profile, "kernel_times"), times);
	CHECK(fake.is_idle());
}

TEST(hardware_times_are_used_where_the_gpu_has_them)
{
	use_version("130500");
	setenv("PROTON_KERNEL_TIMES", "hardware", 1);
	setenv("FAKE_CUDA_MAJOR", "10", 1);
	fake.cu_init(0);
	expect_times("hardware");
	CHECK_EQ(rec_printed("\n"), 0);
}

TEST(hardware_times_exclude_other_tools)
{
	use_version("130500");
	setenv("PROTON_KERNEL_TIMES", "hardware", 1);
	setenv("FAKE_CUDA_MAJOR", "10", 1);
	start();
	CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_E_MULTIPLE_SUBSCRIBERS);
	launch_many(2);
	expect_session(2, "2");
}

TEST(older_gpus_and_refusals_mean_software_times)
{
	use_version("130500");
	fake.cu_init(0);
	setenv("PROTON_KERNEL_TIMES", "hardware", 1);
	expect_times("software"); /* the fake is a Hopper */
	CHECK_EQ(rec_printed("no GPU of this machine can measure them by hardware"), 1);
	setenv("FAKE_CUDA_MAJOR", "10", 1);
	setenv("FAKE_CUPTI_HES", "0", 1);
	expect_times("software");
	CHECK_EQ(rec_printed("CUPTI refused hardware times (FAKE_ERROR_27)"), 1);
	setenv("PROTON_KERNEL_TIMES", "software", 1);
	expect_times("software");
	CHECK_EQ(rec_printed("kernel times"), 2);
}

TEST(an_older_cupti_has_no_hardware_times)
{
	use_version("130000");
	setenv("PROTON_KERNEL_TIMES", "hardware", 1);
	expect_times("software");
	CHECK_EQ(rec_printed("PROTON_KERNEL_TIMES=hardware needs CUPTI's second interface"), 1);
}

TEST(unknown_kernel_times_are_an_error)
{
	struct proton_error err = {0};

	use_version("130500");
	setenv("PROTON_KERNEL_TIMES", "fast", 1);
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_INVALID);
	CHECK_HAS(err.text,
		  "PROTON_KERNEL_TIMES=fast is not known; set it to software or hardware");
}

/* Blackwell, and a process that has initialized the driver and has no context. */
static void use_blackwell(void)
{
	use_version("130500");
	unsetenv("PROTON_KERNEL_TIMES");
	setenv("FAKE_CUDA_MAJOR", "10", 1);
	setenv("FAKE_CUDA_NO_CONTEXT", "1", 1);
	fake.cu_init(0);
}

static bool is_hardware_on(void)
{
	int (*get)(void *subscriber, int attribute, size_t *value_bytes, void *value);
	size_t size = 1;
	uint8_t is_on = 2;

	fake_find(&get, fake_open("PROTON_CUPTI_PATH"), "cuptiActivityGetAttribute_v2");
	get(NULL, CUPTI_ATTRIBUTE_HARDWARE_TIMES, &size, &is_on);
	return is_on;
}

TEST(hardware_times_are_chosen_where_every_gpu_has_them)
{
	use_blackwell();
	for (int i = 0; i < 3; i++)
		expect_times("hardware");
	CHECK(!is_hardware_on());
	CHECK_EQ(rec_printed("\n"), 0);
}

/* Each of these would be measured in the old way, or by another tool's wish. */
TEST(hardware_times_are_not_chosen_where_they_may_do_harm)
{
	static const char *const settings[][2] = {
		{"FAKE_CUDA_MAJOR", "9"},
		{"FAKE_CUDA_ACTIVE", "1"},
		{"PROTON_KERNEL_TIMES", "software"},
		{"PROTON_CUPTI_INTERFACE", "1"},
		{"PROTON_CUPTI_INTERFACE", "2"},
	};

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		use_blackwell();
		setenv(settings[i][0], settings[i][1], 1);
		expect_times("software");
		unsetenv(settings[i][0]);
	}
	use_blackwell();
	unsetenv("FAKE_CUDA_NO_CONTEXT"); /* the calling thread's */
	expect_times("software");
	CHECK_EQ(rec_printed("\n"), 0);
	use_blackwell();
	expect_times("hardware");
}

TEST(before_the_driver_is_initialized_hardware_times_are_not_chosen)
{
	use_version("130500");
	setenv("FAKE_CUDA_MAJOR", "10", 1);
	setenv("FAKE_CUDA_NO_CONTEXT", "1", 1);
	expect_times("software");
	CHECK_EQ(rec_printed("\n"), 0);
}

TEST(a_refusal_of_chosen_hardware_times_changes_nothing_else)
{
	use_blackwell();
	setenv("FAKE_CUPTI_HES", "0", 1);
	start();
	CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_OK);
	launch_many(3);
	CHECK_EQ(fake.second_count(), 3);
	fake.second_unsubscribe();
	expect_session(3, "2");
	CHECK_EQ(rec_printed("\n"), 0);
}

TEST(the_times_of_another_tool_are_not_changed)
{
	use_blackwell();
	CHECK_EQ(fake.second_subscribe("monitor", true), CUPTI_OK);
	start();
	launch_many(2);
	expect_session(2, "2");
	CHECK_EQ(fake.second_count(), 2);
	CHECK(!is_hardware_on());
	fake.second_unsubscribe();
	fake.other_finalize();
	CHECK(fake.other_subscribe("Kineto"));
	expect_busy("CUPTI for Kineto");
	CHECK(!is_hardware_on());
	fake.other_unsubscribe();
}

TEST(after_records_without_times_hardware_times_are_not_chosen_again)
{
	use_blackwell();
	start();
	launch_many(1);
	fake.launch(&(struct fake_launch){
		.call = CUPTI_CALL_LAUNCH_KERNEL, .name = "k", .context = &fake, .records = 1});
	finish();
	CHECK_EQ(rec_printed("kernels without a time, which was measured by hardware: 1;"), 1);
	expect_times("software");
	CHECK_EQ(rec_printed("kernels without a time"), 1);
}

TEST(records_that_cannot_begin_with_hardware_times_begin_without_them)
{
	use_blackwell();
	fake.fail("cuptiActivityEnable_v2", 1, 1, 999);
	expect_times("software");
	CHECK(!is_hardware_on());
	CHECK_EQ(rec_printed("\n"), 0);
}
