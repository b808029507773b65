/* PC sampling in programs that replay graphs, or whose threads are held. */
#include "unit/cuda/replays.h"

#define CALL_PRIMARY_CONTEXT_RETAIN 386 /* graph_calls.def */

/* CUPTI reports the recorder's own calls too: one of them comes while the gate is closed. */
static void report_retain(void)
{
	fake.call(CALL_PRIMARY_CONTEXT_RETAIN, 0);
}

TEST(sampling_starts_though_its_own_calls_are_reported)
{
	begin_with_context();
	fake.set_retaining(report_retain);
	start_sampling("pcsampling");
	CHECK_LT(0, fake.pcs_period(&gpu0));
	end();
}

TEST(threads_are_held_from_before_attaching_until_sampling_is_enabled)
{
	proton_holder_set(&holder);
	begin_with_context();
	start_sampling("pcsampling");
	CHECK_EQ(atomic_load(&holds), 1);
	CHECK_U64(subscribed_at_begin, 0);
	CHECK_LT(0, enabled_at_end);
	CHECK(!atomic_load(&is_held));
	end();
	CHECK_U64(fake.pcs_period(&gpu0), 0);
	CHECK_EQ(fake.calls("cuptiFinalize"), 1);
	proton_holder_set(NULL);
}

TEST(samples_of_graphs_that_are_older_than_the_session_are_known)
{
	struct profile *profile;
	uint32_t exec;

	begin_with_context();
	exec = make_graph();
	replay(exec);
	for (int i = 0; i < 3; i++) {
		start_sampling("pcsampling");
		launch_function("node", NULL, 1000);
		fake.pcs_take(&gpu0, &(struct fake_pc){.crc = 7,
						       .function = "node",
						       .reason = "wait",
						       .samples = 5,
						       .is_of_graph = true});
		replay(exec);
		profile = finish();
		CHECK_EQ(value_at(profile, "node", "num_samples"), 5);
		profile_free(profile);
		replay(exec);
	}
	CHECK_EQ(fake.graph_result(), 0);
}

TEST(samples_that_are_decoded_at_the_end_are_in_the_profile)
{
	struct profile *profile;

	begin_with_context();
	start_sampling("pcsampling");
	launch_function("k", NULL, 1000);
	for (uint32_t i = 0; i < 20000; i++) /* more than one read takes */
		take(7, "k", i * 16, "wait", 1);
	profile = finish();
	CHECK_EQ(value_at(profile, "k", "num_samples"), 20000);
	profile_free(profile);
}
