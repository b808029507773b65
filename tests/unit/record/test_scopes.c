/* record/thread: scopes, states, ops and the contexts that data is attributed to. */
#include "unit/recorded.h"

#include "base/clock.h"

TEST(nested_scopes_are_a_path)
{
	uint64_t outer, inner;

	rec_start("a");
	outer = proton_scope_enter("outer");
	inner = proton_scope_enter("inner");
	rec_kernel("k");
	rec_kernel("k");
	proton_scope_exit(inner, NULL);
	rec_kernel("k");
	proton_scope_exit(outer, NULL);
	rec_kernel("k");
	EXPECT(rec_finish(), {"outer/inner/k", 2}, {"outer/k", 1}, {"k", 1});
}

TEST(a_scope_without_work_still_shows)
{
	rec_start("a");
	proton_scope_exit(proton_scope_enter("empty"), NULL);
	CHECK_NE(rec_node(rec_finish(), "empty"), REC_NOWHERE);
}

TEST(nothing_is_recorded_without_a_session)
{
	uint64_t token = proton_scope_enter("early");

	CHECK_U64(token, 0);
	CHECK_OK(proton_scope_exit(token, NULL), (struct proton_error){0});
	rec_kernel("early");
	rec_start("a");
	CHECK_EQ(rec_finish()->node_count, 1);
}

TEST(exiting_an_outer_scope_exits_open_scopes_inside)
{
	uint64_t outer, lost;

	rec_start("a");
	outer = proton_scope_enter("outer");
	lost = proton_scope_enter("lost");
	CHECK_OK(proton_scope_exit(outer, NULL), (struct proton_error){0});
	rec_kernel("k");
	CHECK_OK(proton_scope_exit(lost, NULL), (struct proton_error){0});
	EXPECT(rec_finish(), {"k", 1});
}

TEST(the_depth_follows_the_scopes)
{
	int session = rec_start("a");
	uint64_t a, b;
	size_t depth;

	CHECK_DONE(proton_context_depth(session, &depth, &err));
	CHECK_EQ(depth, 0);
	a = proton_scope_enter("a");
	b = proton_scope_enter("b");
	CHECK_DONE(proton_context_depth(session, &depth, &err));
	CHECK_EQ(depth, 2);
	proton_scope_exit(b, NULL);
	proton_scope_exit(a, NULL);
	CHECK_DONE(proton_context_depth(session, &depth, &err));
	CHECK_EQ(depth, 0);
	rec_finalize(session, NULL);
}

TEST(finalizing_inside_a_scope_leaves_the_next_session_at_depth_0)
{
	size_t depth;

	rec_start("a");
	uint64_t old = proton_scope_enter("open");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	int session = rec_start("b");
	CHECK_DONE(proton_context_depth(session, &depth, &err));
	CHECK_EQ(depth, 0);
	proton_scope_enter("new");
	CHECK_DONE(proton_scope_exit(old, &err)); /* has no effect any more */
	CHECK_DONE(proton_context_depth(session, &depth, &err));
	CHECK_EQ(depth, 1);
	rec_finalize(session, NULL);
}

TEST(scopes_entered_while_deactivated_are_context_later)
{
	int session = rec_start("a");

	proton_deactivate(session, false, NULL);
	uint64_t token = proton_scope_enter("quiet");
	proton_activate(session, NULL);
	rec_kernel("k");
	proton_scope_exit(token, NULL);
	EXPECT(rec_finish(), {"quiet/k", 1});
}

TEST(a_state_is_the_last_level)
{
	struct proton_metric metric = {.name = "m", .type = PROTON_METRIC_INT64, .value.int64 = 5};
	uint64_t a, b;

	rec_start("a");
	a = proton_scope_enter("test0");
	proton_state_enter("state");
	b = proton_scope_enter("test1");
	proton_metrics_add(proton_scope_context(b), &metric, 1, NULL);
	rec_kernel("k");
	proton_scope_exit(b, NULL);
	proton_state_exit();
	rec_kernel("k");
	proton_scope_exit(a, NULL);
	struct profile *profile = rec_finish();
	CHECK(rec_value(profile, "test0/test1/state", "m"));
	CHECK_U64(rec_count(profile, "test0/test1/state/k"), 1);
	CHECK_U64(rec_count(profile, "test0/k"), 1);
}

TEST(an_inner_state_hides_the_outer_until_it_is_left)
{
	rec_start("a");
	proton_state_enter("outer");
	proton_state_enter("inner");
	rec_kernel("k");
	proton_state_exit();
	rec_kernel("k");
	proton_state_exit();
	proton_state_exit(); /* one too many is harmless */
	rec_kernel("k");
	EXPECT(rec_finish(), {"inner/k", 1}, {"outer/k", 1}, {"k", 1});
}

TEST(the_metadata_state_makes_two_levels)
{
	rec_start("a");
	proton_state_enter("__proton_launch_metadata:mm");
	rec_kernel("inner");
	proton_state_exit();
	EXPECT(rec_finish(), {"__proton_launch_metadata/mm/inner", 1});
}

TEST(a_state_may_be_given_by_its_frames)
{
	uint32_t outer = proton_frame("outer", 5), inner = proton_frame("inner", 5);

	rec_start("a");
	proton_state_enter_frames(outer, inner);
	rec_kernel("k");
	proton_state_enter_frames(outer, UINT32_MAX);
	rec_kernel("k");
	proton_state_exit();
	proton_state_exit();
	rec_kernel("k");
	EXPECT(rec_finish(), {"outer/inner/k", 1}, {"outer/k", 1}, {"k", 1});
}

TEST(a_kernel_inside_an_op_carries_its_name_and_metrics)
{
	struct proton_metric flops = {
		.name = "flops16", .type = PROTON_METRIC_DOUBLE, .value.float64 = 64};
	struct proton_context where, nested;

	rec_start("a");
	proton_op_enter(proton_frame("mm_64x64", 8), &where);
	proton_op_enter(proton_frame("other", 5), &nested);
	CHECK_EQ(nested.shadow, where.shadow);
	proton_metrics_add(where, &flops, 1, NULL);
	rec_kernel("raw_symbol");
	proton_op_exit();
	rec_kernel("raw_symbol");
	struct profile *profile = rec_finish();
	CHECK_U64(rec_count(profile, "mm_64x64"), 1);
	CHECK_NEAR(rec_value(profile, "mm_64x64", "flops16")->as.float64, 64, 0);
	CHECK_U64(rec_count(profile, "raw_symbol"), 1);
	CHECK_EQ(rec_node(profile, "other"), REC_NOWHERE);
}

TEST(kernels_nest_on_the_host)
{
	uint32_t outer = proton_frame("outer", 5);

	rec_start("a");
	for (int i = 0; i < 40; i++) /* deeper than the recorder keeps: still balanced */
		proton_kernel_begin(outer);
	for (int i = 0; i < 40; i++)
		proton_kernel_end();
	proton_kernel_end();
	rec_kernel("after");
	EXPECT(rec_finish(), {"outer", 16}, {"after", 1});
}

TEST(a_timed_scope_adds_its_time_exclusively)
{
	struct timespec pause = {.tv_nsec = 3000000};
	uint64_t begin_ns, took_ns;
	uint64_t token;

	rec_start("a");
	begin_ns = clock_monotonic_ns();
	for (int i = 0; i < 2; i++) {
		token = proton_scope_enter_timed("cpu");
		nanosleep(&pause, NULL);
		proton_scope_exit(token, NULL);
	}
	took_ns = clock_monotonic_ns() - begin_ns;
	struct profile *profile = rec_finish();
	const struct profile_value *value = rec_value(profile, "cpu", "cpu_time (ns)");
	CHECK(value);
	CHECK_LE(6000000, value->as.int64);
	CHECK_LE(value->as.int64, took_ns);
	CHECK(profile->metrics[value->metric].flags & METRIC_EXCLUSIVE);
}

struct visit {
	const char *kernel;
	const char *scope;
	uint64_t foreign_token;
	int status;
};

static void *visit_main(void *data)
{
	struct visit *visit = data;
	uint64_t token = visit->scope ? proton_scope_enter(visit->scope) : 0;

	rec_kernel(visit->kernel);
	proton_scope_exit(token, NULL);
	if (visit->foreign_token)
		visit->status = proton_scope_exit(visit->foreign_token, NULL);
	return NULL;
}

static void run_visit(struct visit *visit)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, visit_main, visit), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(a_thread_without_scopes_follows_each_change_of_the_main_threads)
{
	struct visit plain = {.kernel = "backward"};
	struct visit scoped = {.kernel = "k", .scope = "own"};
	uint64_t token;

	rec_start("a");
	run_visit(&plain);
	for (int step = 0; step < 2; step++) {
		token = proton_scope_enter(step ? "step1" : "step0");
		run_visit(&plain);
		run_visit(&scoped);
		proton_scope_exit(token, NULL);
	}
	EXPECT(rec_finish(), {"backward", 1}, {"step0/backward", 1}, {"step1/backward", 1},
	       {"step1/own/k", 1});
}

TEST(a_scope_is_left_only_on_its_own_thread)
{
	struct visit visit = {.kernel = "k"};

	rec_start("a");
	visit.foreign_token = proton_scope_enter("mine");
	run_visit(&visit);
	CHECK_EQ(visit.status, PROTON_E_STATE);
	rec_kernel("still");
	EXPECT(rec_finish(), {"mine/still", 1});
}

static uint32_t provide_source(void)
{
	uint32_t frame = proton_frame_source("/x/a.py", 7, "main", 4, 12);
	uint32_t inner = proton_frame_source("/x/b.py", 7, "step", 4, 3);

	return proton_context_child(proton_context_child(PROTON_CONTEXT_ROOT, frame), inner);
}

TEST(a_session_with_source_contexts_takes_them_from_the_provider)
{
	struct proton_metric metric = {.name = "m", .type = PROTON_METRIC_INT64, .value.int64 = 1};
	struct proton_error err;

	proton_context_provider_set(provide_source, NULL);
	CHECK_LE(0, rec_start_as("a", "python", &err));
	rec_start("b");
	uint64_t token = proton_scope_enter("scope");
	proton_metrics_add(proton_scope_context(token), &metric, 1, NULL);
	rec_kernel("k");
	proton_scope_exit(token, NULL);
	struct profile *profile = rec_finish();
	CHECK_NE(rec_node(profile, ""), REC_NOWHERE);
	CHECK_EQ(rec_node(profile, "scope"), REC_NOWHERE);
	CHECK_EQ(profile->nodes[0].first_child, 1);
	CHECK_EQ(profile->node_count, 4);
	{
		char text[64];

		profile_frame_text(profile, profile->nodes[2].frame, text, sizeof(text));
		CHECK_STR(text, "/x/b.py:3@step");
	}
	CHECK_U64(profile->kernels[profile->nodes[3].first_kernel].count, 1);
	CHECK_NE(profile->nodes[2].first_value, 0);
	profile = rec_load("b.proton");
	CHECK_U64(rec_count(profile, "scope/k"), 1);
	CHECK(rec_value(profile, "scope", "m"));
}

TEST(two_contexts_have_the_common_part_of_their_paths)
{
	uint32_t a = proton_frame("a", 1);
	uint32_t b = proton_frame("b", 1);
	uint32_t top, left, right;

	rec_start("a");
	top = proton_context_child(PROTON_CONTEXT_ROOT, a);
	left = proton_context_child(proton_context_child(top, a), a);
	right = proton_context_child(top, b);
	CHECK_EQ(proton_context_common(left, right), top);
	CHECK_EQ(proton_context_common(right, left), top);
	CHECK_EQ(proton_context_common(left, left), left);
	CHECK_EQ(proton_context_common(left, top), top);
	CHECK_EQ(proton_context_common(left, proton_context_child(PROTON_CONTEXT_ROOT, b)),
		 PROTON_CONTEXT_ROOT);
	rec_finish();
}

TEST(launches_of_unknown_origin_are_counted_in_each_session)
{
	static const char name[] = "backward launches without a known forward operator";
	int first = rec_start("a");

	proton_origin_unknown();
	int second = rec_start("b");
	proton_origin_unknown();
	CHECK_U64(rec_counter(first, name), 2);
	CHECK_U64(rec_counter(second, name), 1);
	rec_finish();
}
