/* Phases: each contains the data recorded in it; rows of cleared phases are reused. */
#include "unit/recorded.h"

static void in_scope(const char *scope)
{
	uint64_t token = proton_scope_enter(scope);

	rec_kernel("k");
	proton_scope_exit(token, NULL);
}

static bool is_complete(int session, uint32_t phase)
{
	bool complete;

	CHECK_DONE(proton_phase_is_complete(session, phase, &complete, &err));
	return complete;
}

static void clear(int session, uint32_t phase, bool up_to)
{
	CHECK_DONE(proton_phase_clear(session, phase, up_to, &err));
}

TEST(a_phase_contains_only_its_own_data)
{
	int session = rec_start("a");

	in_scope("one");
	CHECK_EQ(rec_advance(session), 1);
	in_scope("two");
	in_scope("two");
	struct profile *profile = rec_load_phase("a.proton", 0);
	CHECK_U64(rec_count(profile, "one/k"), 1);
	CHECK_EQ(rec_node(profile, "two"), REC_NOWHERE);
	profile = rec_load_phase("a.proton", 1);
	CHECK_EQ(rec_node(profile, "one"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "two/k"), 2);
	profile = rec_load("a.proton");
	CHECK_U64(rec_count(profile, "one/k"), 1);
	CHECK_U64(rec_count(profile, "two/k"), 2);
	rec_finalize(session, NULL);
	CHECK(rec_exists("a.part_0.hatchet"));
	CHECK(rec_exists("a.part_1.hatchet"));
	CHECK(!rec_exists("a.hatchet"));
}

TEST(empty_scopes_show_in_every_phase_they_were_entered_in)
{
	int session = rec_start("a");

	for (uint32_t phase = 0; phase < 5; phase++) {
		if (phase != 3)
			proton_scope_exit(proton_scope_enter("empty"), NULL);
		rec_advance(session);
	}
	for (uint32_t phase = 0; phase < 5; phase++) {
		CHECK_EQ(rec_node(rec_load_phase("a.proton", phase), "empty") != REC_NOWHERE,
			 phase != 3);
	}
	rec_finalize(session, NULL);
}

TEST(completeness_follows_a_flush)
{
	int session = rec_start("a");

	CHECK(!is_complete(session, 0));
	rec_advance(session);
	CHECK(!is_complete(session, 0));
	CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
	CHECK(is_complete(session, 0));
	CHECK(!is_complete(session, 1));
	CHECK(!is_complete(session, 9));
	rec_finalize(session, NULL);
}

TEST(clearing_the_current_phase_empties_it)
{
	int session = rec_start("a");

	in_scope("before");
	clear(session, 0, false);
	in_scope("after");
	rec_finalize(session, NULL);
	struct profile *profile = rec_load("a.hatchet");
	CHECK_EQ(rec_node(profile, "before"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "after/k"), 1);
}

TEST(clearing_up_to_a_phase_keeps_the_later_ones)
{
	struct proton_error err;
	char *bytes;
	size_t length;
	int session = rec_start("a");

	for (int i = 0; i < 4; i++) {
		in_scope("s");
		rec_advance(session);
	}
	clear(session, 1, true);
	CHECK_EQ(proton_data_get(session, 0, NULL, &bytes, &length, &err), PROTON_E_RANGE);
	CHECK_STR(err.text, "Phase 0 has no data.");
	CHECK_EQ(proton_data_get(session, 1, NULL, &bytes, &length, &err), PROTON_E_RANGE);
	CHECK_OK(proton_data_get(session, 2, NULL, &bytes, &length, &err), err);
	proton_free(bytes);
	rec_finalize(session, NULL);
	CHECK(!rec_exists("a.part_1.hatchet"));
	CHECK(rec_exists("a.part_2.hatchet"));
}

TEST(clearing_a_later_phase_drops_nothing_and_up_to_it_everything)
{
	int session = rec_start("a");

	in_scope("first");
	rec_advance(session);
	in_scope("second");
	clear(session, 99, false);
	clear(session, 0, false);
	clear(session, 0, false);
	in_scope("third");
	rec_finalize(session, NULL);
	struct profile *profile = rec_load("a.part_1.hatchet");
	CHECK_U64(rec_count(profile, "second/k"), 1);
	CHECK_U64(rec_count(profile, "third/k"), 1);
	session = rec_start("b");
	in_scope("first");
	rec_advance(session);
	in_scope("second");
	clear(session, UINT32_MAX, true);
	in_scope("third");
	rec_finalize(session, NULL);
	CHECK(!rec_exists("b.part_0.hatchet"));
	profile = rec_load("b.part_1.hatchet");
	CHECK_EQ(rec_node(profile, "second"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "third/k"), 1);
}

TEST(a_metric_at_exit_goes_to_the_phase_of_the_exit)
{
	int session = rec_start("a");
	uint64_t token = proton_scope_enter_timed("across");

	rec_advance(session);
	proton_scope_exit(token, NULL);
	struct profile *profile = rec_load_phase("a.proton", 0);
	CHECK_PTR(rec_value(profile, "across", "cpu_time (ns)"), NULL);
	profile = rec_load_phase("a.proton", 1);
	CHECK(rec_value(profile, "across", "cpu_time (ns)"));
	rec_finalize(session, NULL);
}

TEST(clearing_every_step_keeps_the_file_small)
{
	struct stat st;
	off_t after_warm_up = 0;
	int session = rec_start("a");

	for (int step = 0; step < 3000; step++) {
		for (int i = 0; i < 20; i++) {
			char name[16];

			snprintf(name, sizeof(name), "scope%d", i);
			in_scope(name);
			in_scope(name); /* twice: histograms come and go too */
		}
		rec_next_phase(session);
		CHECK_EQ(stat(rec_path("a.proton"), &st), 0);
		if (step == 100)
			after_warm_up = st.st_size;
	}
	CHECK_LE(st.st_size, after_warm_up + (64 << 10)); /* only the list of phases grows */
	rec_finalize(session, "none");
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* CPU time of 2000 phases, each with a kernel and a metric, of which all but `kept` are cleared. */
static uint64_t phases_take(int session, int kept)
{
	struct proton_metric metric = {.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = 1};
	uint64_t start_ns = cpu_ns();

	for (int i = 0; i < 2000; i++) {
		uint32_t phase;

		in_scope("s");
		proton_metrics_add(proton_context_here(), &metric, 1, NULL);
		phase = rec_advance(session);
		if (kept && phase > (uint32_t)kept)
			clear(session, phase - (uint32_t)kept - 1, false);
	}
	return cpu_ns() - start_ns;
}

TEST(a_phase_costs_the_same_however_many_are_kept)
{
	int session = rec_start("a");

	phases_take(session, 0); /* warm-up */
	uint64_t first_ns = phases_take(session, 0);
	for (int i = 0; i < 15; i++)
		phases_take(session, 0);
	CHECK_LE(phases_take(session, 0), 8 * first_ns); /* 17 times with a search of all */
	rec_finalize(session, "none");
}

TEST(clearing_a_phase_costs_the_same_however_many_are_kept)
{
	int session = rec_start("a");

	phases_take(session, 10); /* warm-up */
	uint64_t few_ns = phases_take(session, 10);
	rec_finalize(session, "none");
	session = rec_start("b");
	for (int i = 0; i < 10; i++)
		phases_take(session, 20000);
	CHECK_LE(phases_take(session, 20000), 8 * few_ns);
	CHECK_LE(phases_take(session, 20000), 8 * few_ns);
	rec_finalize(session, "none");
}

TEST(clearing_a_phase_in_the_middle_leaves_its_neighbours)
{
	struct profile *profile;
	int session = rec_start("a");

	for (int phase = 0; phase < 6; phase++) {
		for (int i = 0; i <= phase; i++)
			in_scope("s");
		rec_advance(session);
	}
	clear(session, 2, false);
	clear(session, 4, false);
	clear(session, 3, false);
	in_scope("s"); /* takes a row that was given back */
	for (uint32_t phase = 0; phase < 7; phase++) {
		if (phase >= 2 && phase <= 4)
			continue;
		profile = rec_load_phase("a.proton", phase);
		CHECK_U64(rec_count(profile, "s/k"), phase == 6 ? 1 : phase + 1);
	}
	profile = rec_load("a.proton");
	CHECK_U64(rec_count(profile, "s/k"), 1 + 2 + 6 + 1);
	rec_finalize(session, "none");
}

TEST(vectors_of_cleared_phases_are_used_again)
{
	int64_t elements[] = {1, 2, 3};
	struct proton_metric metrics[] = {
		{.name = "v", .type = PROTON_METRIC_INT64_VECTOR, .count = 3},
		{.name = "w", .type = PROTON_METRIC_INT64_VECTOR, .count = 1},
		{.name = "empty", .type = PROTON_METRIC_INT64_VECTOR},
	};
	int session = rec_start("a");

	for (int i = 0; i < 3; i++)
		metrics[i].value.int64s = elements;
	for (int step = 0; step < 1000; step++) {
		CHECK_DONE(proton_metrics_add(proton_context_here(), metrics, 3, &err));
		CHECK_DONE(proton_metrics_add(proton_context_here(), metrics, 3, &err));
		rec_next_phase(session);
	}
	CHECK_DONE(proton_metrics_add(proton_context_here(), metrics, 3, &err));
	CHECK_LE(rec_rows("a.proton", TABLE_VECTORS), 4 + 2 + 1);
	CHECK_LE(rec_rows("a.proton", TABLE_VALUES), 8);
	rec_finalize(session, "proton");
	{
		struct profile *profile = rec_load("a.proton");
		const struct profile_value *value = rec_value(profile, "", "v");

		CHECK_U64(profile->words[value->as.vector + 3], 3);
	}
}

/* As with a GPU: the record arrives after the phase of its launch has ended. */
TEST(a_late_record_makes_its_nodes_in_the_phase_of_its_launch)
{
	int session = rec_start("a");

	proton_scope_exit(proton_scope_enter("other"), NULL);
	struct proton_context where = proton_context_here();
	where.shadow = proton_context_child(where.shadow, proton_frame("late", 4));
	CHECK_EQ(rec_advance(session), 1);
	{
		struct proton_metric metric = {
			.name = "m", .type = PROTON_METRIC_INT64, .value.int64 = 1};
		struct proton_error err;

		CHECK_OK(proton_metrics_add(where, &metric, 1, &err), err);
	}
	in_scope("new");
	struct profile *profile = rec_load_phase("a.proton", 0);
	CHECK_NE(rec_node(profile, "late"), REC_NOWHERE);
	profile = rec_load_phase("a.proton", 1);
	CHECK_EQ(rec_node(profile, "late"), REC_NOWHERE);
	CHECK_NE(rec_node(profile, "new"), REC_NOWHERE);
	rec_finalize(session, "none");
}

static int start_periodic(const char *mode, const char *data)
{
	return REC_START(.mode = mode, .data = data);
}

TEST(periodic_flushing_writes_each_phase_and_clears_it)
{
	int session = start_periodic("periodic_flushing", NULL);
	struct proton_error err;
	char *bytes;
	size_t length;

	for (int phase = 0; phase < 5; phase++) {
		char scope[16], file[32];

		snprintf(scope, sizeof(scope), "s%d", phase);
		in_scope(scope);
		CHECK_EQ(rec_advance(session), (uint32_t)phase + 1);
		snprintf(file, sizeof(file), "a.part_%d.hatchet", phase);
		CHECK(rec_exists(file));
		CHECK_OK(file_read_all(rec_path(file), 0, &bytes, &length, &err), err);
		CHECK_HAS(bytes, scope);
		CHECK(!strstr(bytes, phase ? "\"s0\"" : "\"s1\""));
		free(bytes);
		CHECK_OK(proton_data_get(session, (uint32_t)phase, NULL, &bytes, &length, &err),
			 err);
		CHECK_HAS(bytes, scope);
		proton_free(bytes);
		if (phase > 0)
			CHECK_EQ(proton_data_get(session, (uint32_t)phase - 1, NULL, &bytes,
						 &length, &err),
				 PROTON_E_RANGE);
	}
	CHECK_OK(proton_phase_clear(session, 4, false, &err), err);
	CHECK_EQ(proton_data_get(session, 4, NULL, &bytes, &length, &err), PROTON_E_RANGE);
	in_scope("last");
	CHECK_OK(proton_finalize(session, NULL, &err), err);
	CHECK(rec_exists("a.part_5.hatchet") && !rec_exists("a.part_6.hatchet"));
	CHECK(!rec_exists("a.hatchet") && !rec_exists("a.proton"));
}

TEST(periodic_flushing_uses_its_format_at_the_end_too)
{
	int session = start_periodic("periodic_flushing:format=hatchet_msgpack", NULL);

	in_scope("s");
	rec_advance(session);
	in_scope("s");
	CHECK_DONE(proton_finalize(session, NULL, &err));
	CHECK(rec_exists("a.part_0.hatchet_msgpack") && rec_exists("a.part_1.hatchet_msgpack"));
	session = start_periodic("Periodic_Flushing", "trace");
	in_scope("s");
	rec_advance(session);
	CHECK_DONE(proton_finalize(session, NULL, &err));
	CHECK(rec_exists("a.part_0.chrome_trace"));
}

TEST(a_phase_that_cannot_be_written_is_kept)
{
	int session = start_periodic("periodic_flushing", NULL);
	char *bytes;
	size_t length;

	CHECK_EQ(mkdir(rec_path("a.part_0.hatchet"), 0777), 0);
	in_scope("first");
	CHECK_EQ(rec_advance(session), 1);
	CHECK_DONE(proton_data_get(session, 0, NULL, &bytes, &length, &err));
	CHECK_HAS(bytes, "first");
	proton_free(bytes);
	CHECK_EQ(rmdir(rec_path("a.part_0.hatchet")), 0);
	in_scope("second");
	CHECK_EQ(rec_advance(session), 2);
	CHECK(rec_exists("a.part_0.hatchet") && rec_exists("a.part_1.hatchet"));
	CHECK_DONE(proton_finalize(session, "none", &err));
}

TEST(periodic_flushing_refuses_what_it_cannot_do)
{
	static const struct {
		const char *name, *mode, *text;
	} cases[] = {
		{"a", "periodic_flushing:every=5", "host: unsupported option key: every; "},
		{"a", "periodic_flushing:format=xml",
		 "host: unsupported format: xml; available: hatchet"},
		{"a", "periodic_flushing:format=perfetto", "host: unsupported format: perfetto"},
		{"a", "periodic_flushing:format=none", "host: unsupported format: none"},
		{"a", "periodic", "host: unsupported mode: periodic; "},
		{"-", "periodic_flushing", "standard output"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct proton_session_options options = {
			.size = sizeof(options),
			.name = cases[i].name,
			.backend = "host",
			.mode = cases[i].mode,
		};
		struct proton_error err;
		int session;

		CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_INVALID);
		CHECK_HAS(err.text, cases[i].text);
	}
}

static void *advance_often(void *argument)
{
	const int *session = argument;

	for (int i = 0; i < 50; i++) {
		in_scope("t");
		rec_advance(*session);
	}
	return NULL;
}

TEST(threads_that_advance_at_once_lose_no_phase)
{
	int session = start_periodic("periodic_flushing", NULL);
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, advance_often, &session), 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	/* A kernel that ends after another thread has written its phase is counted as lost. */
	uint64_t kernels = rec_counter(session, "lost: recorded after its phase was cleared");
	CHECK_DONE(proton_finalize(session, NULL, &err));
	for (int phase = 0; phase <= 200; phase++) {
		char file[32], *bytes;
		size_t length;

		snprintf(file, sizeof(file), "a.part_%d.hatchet", phase);
		if (!rec_exists(file))
			continue;
		CHECK_DONE(file_read_all(rec_path(file), 0, &bytes, &length, &err));
		for (const char *at = bytes; (at = strstr(at, "\"count\": ")); at++)
			kernels += strtoull(at + strlen("\"count\": "), NULL, 10);
		free(bytes);
	}
	CHECK_U64(kernels, 200);
}
