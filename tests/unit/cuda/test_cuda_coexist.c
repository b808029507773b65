/*
 * CUDA backend: another tool in the process that uses CUPTI before, after, or during Proton, both
 * through CUPTI's first interface. test_cuda_second has the cases with the second one.
 */
#include "unit/cuda/cuda_session.h"

/* A complete session, unaffected by other tools. */
static void whole_session(void)
{
	start();
	for (int i = 0; i < 10; i++)
		launch_ns("k", 5);
	EXPECT(finish(), {"k", 10});
	CHECK(fake.is_idle());
}

TEST(another_subscriber_is_named_and_when_it_has_ended_the_start_works)
{
	struct proton_error err;

	load_fake();
	CHECK(fake.other_subscribe("Kineto"));
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(
		err.text,
		"in use by another tool in this process (CUPTI for Kineto); stop that tool first");
	CHECK(!rec_exists("a.proton"));
	fake.other_unsubscribe();
	whole_session();
	CHECK(fake.other_subscribe("Kineto")); /* and it may come back */
}

TEST(before_13_0_another_subscriber_has_no_name)
{
	struct proton_error err;

	ONLY_FIRST();
	setenv("FAKE_CUPTI_VERSION", "22", 1);
	load_fake();
	CHECK(fake.other_subscribe("Kineto"));
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(err.text, "(torch.profiler, nsys, ncu, a second Proton); stop that tool first");
}

/* DCGM is another process: CUPTI cannot tell which tool it is. */
TEST(a_gpu_that_dcgm_measures_is_an_error_with_its_remedy)
{
	struct proton_error err;

	ONLY_CUDA("the libraries of ROCm have no such error");
	load_fake();
	fake.fail("cuptiActivityEnable", 1, 1, CUPTI_E_HARDWARE_BUSY);
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK_HAS(err.text, "another process measures this GPU (DCGM, ");
	CHECK_HAS(err.text, "pause DCGM with \"dcgmi profile --pause\" [cuptiActivityEnable");
	CHECK(!rec_exists("a.proton"));
	CHECK(fake.is_idle());
	whole_session();
}

/* Records that never come, instead of an error. */
TEST(dcgm_is_named_if_no_record_is_received)
{
	struct proton_error err = {0};

	ONLY_CUDA("the libraries of ROCm have their own text");
	start();
	fake.hold(true);
	launch_ns("k", 5);
	CHECK_EQ(proton_finalize_owned(NULL, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "(nsys, ncu, torch.profiler, DCGM)");
}

TEST(a_tool_may_unsubscribe_while_it_is_asked_for_its_name)
{
	struct proton_error err;

	ONLY_FIRST();
	load_fake();
	fake.fail("cuptiSubscribe", 1, 1, CUPTI_E_MULTIPLE_SUBSCRIBERS);
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_EQ(err.status, PROTON_E_BUSY);
	CHECK(fake.is_idle());
	whole_session();
}

/* A tool without a subscriber: it gets its records first, then Proton. */
TEST(a_tool_may_have_used_buffers_before)
{
	ONLY_FIRST();
	load_fake();
	fake.other_start();
	launch_ns("theirs", 5);
	CHECK_EQ(fake.other_stop(), 1);
	whole_session();
	fake.other_start();
	launch_ns("theirs", 5);
	launch_ns("theirs", 5);
	CHECK_EQ(fake.other_stop(), 2);
	whole_session();
}

TEST(a_buffer_of_another_tool_is_left_alone)
{
	ONLY_FIRST();
	load_fake();
	fake.other_start();
	launch_ns("theirs", 5); /* CUPTI has a buffer of the other tool from now on */
	int session = start();
	launch_ns("ours", 5);
	fake.cuda_fail("cuCtxSynchronize", 1, 1, 700); /* a short wait */
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 1);
	rec_finalize(session, "none");
	whole_session();
}

TEST(a_tool_that_takes_over_the_buffers_is_reported_once)
{
	ONLY_FIRST();
	rec_begin_saying();
	int session = start();
	launch_ns("before", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	proton_activate(session, NULL);
	fake.other_start();
	for (int i = 0; i < 3; i++)
		launch_ns("while", 5);
	/* It took Proton's records and disabled what Proton needs. */
	CHECK_EQ(fake.other_stop(), 3);
	for (int i = 0; i < 4; i++)
		launch_ns("after", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, "lost: kernel record never received"), 7);
	CHECK_EQ(rec_printed("no CUPTI records were received for 7 kernels; another tool"), 1);
	proton_activate(session, NULL);
	launch_ns("after", 5);
	EXPECT(finish(), {"before", 1});
	CHECK_EQ(rec_printed("no CUPTI records were received"), 1);
	whole_session();
}

TEST(a_tool_that_ends_cupti_is_reported_once)
{
	rec_begin_saying();
	int session = start();
	launch_ns("before", 5);
	fake.other_finalize();
	launch_ns("after", 5);
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK_EQ(rec_printed("another tool in this process called cuptiFinalize"), 1);
	EXPECT(finish(), {"before", 1});
	CHECK_EQ(rec_printed("another tool in this process called cuptiFinalize"), 1);
	whole_session();
	CHECK_EQ(rec_printed("proton: "), 1);
}

TEST(another_tool_may_end_cupti_and_subscribe_before_proton_stops)
{
	struct proton_error err;

	start();
	fake.other_finalize();
	CHECK(fake.other_subscribe("nsys"));
	finish(); /* must not end the other tool's */
	CHECK_LT(start_named("a", tested_backend(), &err), 0);
	CHECK_HAS(err.text, "CUPTI for nsys");
	fake.other_unsubscribe();
	whole_session();
}
