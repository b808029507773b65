/* record/: sessions from start to output, and every error in their options. */
#include "unit/recorded.h"

#include <sys/resource.h>

static int start(const struct proton_session_options *options, struct proton_error *err)
{
	int session = -1;

	memset(err, 0, sizeof(*err));
	int status = proton_start(options, &session, err);
	return status == PROTON_OK ? session : status;
}

#define OPTIONS(...)                                                                               \
	(&(struct proton_session_options){.size = sizeof(struct proton_session_options),           \
					  .flags = PROTON_SESSION_QUIET,                           \
					  __VA_ARGS__})

TEST(ids_count_up_and_are_not_reused)
{
	int first = rec_start("a");
	int second = rec_start("b");

	CHECK_EQ(second, first + 1);
	rec_finalize(second, NULL);
	CHECK_EQ(rec_start("c"), first + 2);
	CHECK(proton_is_profiling());
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK(!proton_is_profiling());
	CHECK(rec_exists("a.hatchet"));
	CHECK(rec_exists("b.hatchet"));
	CHECK(rec_exists("c.hatchet"));
	CHECK(!rec_exists("a.proton"));
}

TEST(starting_under_a_live_name_activates_that_session)
{
	int session = rec_start("a");

	CHECK_OK(proton_deactivate(session, false, NULL), (struct proton_error){0});
	rec_kernel("lost");
	CHECK_EQ(rec_start("a"), session);
	rec_kernel("kept");
	rec_finalize(session, NULL);
	struct profile *profile = rec_load("a.hatchet");
	CHECK_U64(rec_count(profile, "kept"), 1);
	CHECK_EQ(rec_node(profile, "lost"), REC_NOWHERE);
}

TEST(bad_options_are_named_and_leave_nothing)
{
	static const struct {
		const char *context, *data, *backend, *mode, *text;
		int status;
	} cases[] = {
		{.context = "stack",
		 .text = "Unknown context source: stack; expected shadow, python or "
			 "python+scopes",
		 .status = PROTON_E_INVALID},
		{.data = "table",
		 .text = "Unknown data: table; expected tree or trace",
		 .status = PROTON_E_INVALID},
		{.backend = "vulkan",
		 .text = "Unknown profiler: vulkan; available: cupti, rocprofiler, roctracer, "
			 "instrumentation, host",
		 .status = PROTON_E_INVALID},
		{.mode = "pcsampling",
		 .text = "host: unsupported mode: pcsampling; it is a mode of the backends \"cup",
		 .status = PROTON_E_INVALID},
		{.backend = "cupti",
		 .mode = "PCSampling:interval=9k",
		 .text = "cupti: pcsampling: the interval is not a number of cycles: 9k; use 32 to",
		 .status = PROTON_E_INVALID},
		{.mode = "default",
		 .text = "host: unsupported mode: default; it is a mode of the backend \"instrum",
		 .status = PROTON_E_INVALID},
		{.mode = "fast",
		 .text = "host: unsupported mode: fast; available: periodic_flushing",
		 .status = PROTON_E_INVALID},
	};
	struct proton_error err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = start(OPTIONS(.name = rec_path("x"), .context = cases[i].context,
					   .data = cases[i].data, .backend = cases[i].backend,
					   .mode = cases[i].mode),
				   &err);

		CHECK_EQ(status, cases[i].status);
		CHECK_HAS(err.text, cases[i].text);
	}
	CHECK_EQ(start(OPTIONS(.name = rec_path("no/x")), &err), PROTON_E_IO);
	CHECK_HAS(err.text, "No such file or directory");
	CHECK_EQ(start(OPTIONS(.name = rec_path("")), &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "is a directory");
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("x.proton"));
}

TEST(options_of_another_size_are_refused)
{
	struct proton_session_options options = {.size = 8};
	struct proton_error err;

	CHECK_EQ(start(&options, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "size");
}

TEST(unknown_sessions_are_named)
{
	struct proton_error err;
	char *bytes;
	size_t length;
	bool complete;
	uint32_t phase;

	CHECK_EQ(proton_activate(7, &err), PROTON_E_RANGE);
	CHECK_STR(err.text,
		  "Session has not been initialized: 7; it was not started, or has been finalized");
	CHECK_EQ(proton_deactivate(7, true, &err), PROTON_E_RANGE);
	CHECK_EQ(proton_data_get(7, 0, NULL, &bytes, &length, &err), PROTON_E_RANGE);
	CHECK_EQ(proton_phase_advance(7, &phase, &err), PROTON_E_RANGE);
	CHECK_EQ(proton_phase_is_complete(7, 0, &complete, &err), PROTON_E_RANGE);
	CHECK_EQ(proton_phase_clear(7, 0, false, &err), PROTON_E_RANGE);
	CHECK_EQ(proton_context_depth(7, &length, &err), PROTON_E_RANGE);
	CHECK_EQ(proton_statistics(7, NULL, 0, &err), PROTON_E_RANGE);
	CHECK_OK(proton_finalize(7, NULL, &err), err);
}

TEST(an_unknown_output_format_ends_nothing)
{
	struct proton_error err;
	int session = rec_start("a");

	CHECK_EQ(proton_finalize(session, "pdf", &err), PROTON_E_INVALID);
	CHECK_STR(err.text,
		  "Unknown output format: pdf; expected hatchet, hatchet_msgpack, chrome_trace, "
		  "perfetto, proton or none");
	rec_kernel("k");
	rec_finalize(session, "HATCHET_MSGPACK");
	CHECK(rec_exists("a.hatchet_msgpack"));
}

TEST(format_proton_keeps_a_finished_compact_working_file)
{
	int session = rec_start("a");

	rec_kernel("k");
	rec_finalize(session, "proton");
	CHECK(!rec_exists("a.hatchet"));
	struct profile *profile = rec_load("a.proton");
	CHECK(!profile->is_unfinished);
	CHECK_U64(rec_count(profile, "k"), 1);
}

TEST(an_output_that_cannot_be_written_leaves_the_working_file)
{
	struct proton_error err;
	int session = rec_start("a");

	rec_kernel("k");
	CHECK_EQ(mkdir(rec_path("a.hatchet"), 0700), 0);
	CHECK_NE(proton_finalize(session, NULL, &err), PROTON_OK);
	CHECK_HAS(err.text, "a.hatchet");
	CHECK_HAS(err.text, "the recorded data is in");
	CHECK(!proton_is_profiling());
	EXPECT(rec_load("a.proton"), {"k", 1});
}

TEST(two_sessions_see_what_ran_while_they_were_active)
{
	int a = rec_start("a");
	int b;

	rec_kernel("one");
	b = rec_start("b");
	rec_kernel("two");
	proton_deactivate(a, false, NULL);
	rec_kernel("three");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	struct profile *profile = rec_load("a.hatchet");
	CHECK_U64(rec_count(profile, "one"), 1);
	CHECK_U64(rec_count(profile, "two"), 1);
	CHECK_EQ(rec_node(profile, "three"), REC_NOWHERE);
	profile = rec_load("b.hatchet");
	CHECK_EQ(rec_node(profile, "one"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "two"), 1);
	CHECK_U64(rec_count(profile, "three"), 1);
	(void)b;
}

TEST(owned_sessions_are_not_ended_by_the_program)
{
	int session = rec_start("a");
	int again = -1;

	proton_own_sessions();
	CHECK(proton_sessions_are_owned());
	CHECK_DONE(proton_start(OPTIONS(.name = rec_path("other")), &again, &err));
	CHECK_EQ(again, session);
	CHECK_DONE(proton_finalize(session, NULL, &err));
	CHECK(proton_is_profiling());
	CHECK_DONE(proton_finalize_owned(NULL, &err));
	CHECK(rec_exists("a.hatchet"));
	CHECK(!rec_exists("other.hatchet"));
}

TEST(after_the_owned_session_has_ended_no_other_starts)
{
	struct proton_error err;
	int session = rec_start("a");
	int other = -7;

	proton_own_sessions();
	rec_kernel("k");
	CHECK_OK(proton_finalize_owned(NULL, &err), err);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(proton_start(OPTIONS(.name = rec_path("b")), &other, &err),
			 PROTON_E_STATE);
		CHECK_STR(err.text, "the session owned by the proton command has already ended");
	}
	CHECK_EQ(other, -7);
	CHECK(!proton_is_profiling());
	CHECK(!rec_exists("b.proton"));
	/* Later work of the program does no harm and is not recorded. */
	rec_kernel("late");
	CHECK_EQ(proton_activate(session, &err), PROTON_E_RANGE);
	CHECK_OK(proton_finalize(PROTON_ALL_SESSIONS, NULL, &err), err);
	CHECK_OK(proton_finalize_owned(NULL, &err), err);
	CHECK(!rec_exists("b.hatchet"));
	{
		struct profile *profile = rec_load("a.hatchet");

		CHECK_U64(rec_count(profile, "k"), 1);
		CHECK_EQ(rec_node(profile, "late"), REC_NOWHERE);
	}
}

TEST(the_summary_names_the_output_and_the_counts)
{
	char text[512];

	proton_last_summary(text, sizeof(text));
	CHECK_STR(text, "");
	rec_start("a");
	for (int i = 0; i < 1234; i++)
		rec_kernel("k");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	proton_last_summary(text, sizeof(text));
	CHECK_HAS(text, "recorded 1,234 kernel launches in 1 context");
	CHECK_HAS(text, "; view it with: proton-viewer ");
	CHECK_HAS(text, "a.hatchet");
	rec_start("b");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	proton_last_summary(text, sizeof(text));
	CHECK_HAS(text, "nothing was recorded");
}

TEST(more_sessions_than_there_are_slots_is_an_error)
{
	struct proton_error err = {0};
	char name[16];
	int started = 0;

	if (TAP_IS_SANITIZED)
		SKIP("ThreadSanitizer leaves too little address space for that many sessions");
	for (; started < 100; started++) {
		snprintf(name, sizeof(name), "s%d", started);
		if (rec_start_as(name, "shadow", &err) < 0)
			break;
	}
	CHECK_EQ(started, 32);
	CHECK_HAS(err.text, "the limit of 32 live sessions is reached");
	rec_kernel("k");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	CHECK(rec_exists("s31.hatchet"));
}

TEST(the_data_of_a_live_session_can_be_read)
{
	struct proton_error err;
	struct profile *profile;
	char *bytes;
	size_t length;
	int session = rec_start("a");

	rec_kernel("k");
	CHECK_OK(proton_data_get(session, 0, "hatchet", &bytes, &length, &err), err);
	CHECK_OK(profile_load_bytes("data", bytes, length, &profile, &err), err);
	CHECK_U64(rec_count(profile, "k"), 1);
	profile_free(profile);
	proton_free(bytes);
	CHECK_OK(proton_data_get(session, 0, "hatchet_msgpack", &bytes, &length, &err), err);
	CHECK_OK(profile_load_bytes("data", bytes, length, &profile, &err), err);
	CHECK_U64(rec_count(profile, "k"), 1);
	profile_free(profile);
	proton_free(bytes);
	CHECK_EQ(proton_data_get(session, 3, NULL, &bytes, &length, &err), PROTON_E_RANGE);
	CHECK_STR(err.text, "Phase 3 has no data.");
	CHECK_EQ(proton_data_get(session, 0, "pdf", &bytes, &length, &err), PROTON_E_INVALID);
	rec_finalize(session, NULL);
}

static void limit_address_space(unsigned long left)
{
	struct rlimit limit;
	unsigned long pages;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
	limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + left;
	CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(pausing_and_resuming_uses_nothing_up)
{
	skip_if_emulated("the emulator does not limit address space");
	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer needs more address space than the test leaves");
	int session = rec_start("a");
	limit_address_space(8ul << 20);
	for (int i = 0; i < 1000000; i++) {
		CHECK_DONE(proton_deactivate(session, false, &err));
		CHECK_DONE(proton_activate(session, &err));
	}
	rec_kernel("k");
	CHECK_U64(rec_counter(session, "kernels"), 1);
	CHECK_U64(rec_counter(session, "lost: profile storage full"), 0);
	rec_finalize(session, NULL);
}

TEST(session_sets_beyond_the_limit_are_counted_as_lost)
{
	int sessions[8];

	skip_if_emulated("the emulator does not limit address space");
	if (TAP_IS_SANITIZED)
		SKIP("a sanitizer needs more address space than the test leaves");
	rec_begin_saying();
	/* A set of 8 sessions takes more than an epoch does; each session has space for 1,000. */
	for (int i = 0; i < 8; i++)
		sessions[i] = rec_start((char[]){(char)('a' + i), '\0'});
	rec_kernel("k");
	limit_address_space(0);
	for (int i = 0; i < 8 * 3000; i++)
		CHECK_DONE(proton_phase_advance(sessions[i % 8], NULL, &err));
	CHECK(rec_counter(sessions[0], "lost: profile storage full") > 0);
	CHECK_EQ(rec_printed("no address space for another set of sessions"), 1);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}
