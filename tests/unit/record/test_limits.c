/* record/limits: names beyond the limits go into "(other)" and are counted. */
#include "unit/recorded.h"

static const char folded[] = "lost: name beyond the limits, in (other)";

static void set_limit(const char *variable, const char *value)
{
	CHECK_EQ(setenv(variable, value, 1), 0);
}

/* Enters a scope called "<stem> <i>", timed, with a kernel inside. */
static void request(const char *stem, long i, bool has_kernel)
{
	char name[64];

	snprintf(name, sizeof(name), "%s %ld", stem, i);
	uint64_t token = proton_scope_enter_timed(name);
	if (has_kernel)
		rec_kernel("k");
	proton_scope_exit(token, NULL);
}

static long resident_kb(void)
{
	char line[256];

	long anonymous = 0;
	long file = 0;
	long shared = 0;
	FILE *status = fopen("/proc/self/status", "r");

	CHECK(status != NULL);
	while (fgets(line, sizeof(line), status)) {
		sscanf(line, "RssAnon: %ld", &anonymous);
		sscanf(line, "RssFile: %ld", &file);
		sscanf(line, "RssShmem: %ld", &shared);
	}
	fclose(status);
	return anonymous + file + shared;
}

TEST(children_beyond_the_limit_go_into_other)
{
	set_limit("PROTON_MAX_CHILDREN", "10");
	int session = rec_start("a");
	for (long i = 0; i < 25; i++)
		request("r", i, true);
	request("r", 3, true); /* known already */
	CHECK_U64(rec_counter(session, folded), 15);
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(rec_count(profile, "r 3/k"), 2);
	CHECK_U64(rec_count(profile, "r 9/k"), 1);
	CHECK_EQ(rec_node(profile, "r 10"), REC_NOWHERE);
	CHECK_U64(rec_count(profile, "(other)/k"), 15);
	CHECK(rec_value(profile, "(other)", "cpu_time (ns)"));
}

TEST(each_parent_has_one_other_without_children)
{
	uint32_t other;

	set_limit("PROTON_MAX_CHILDREN", "4");
	int session = rec_start("a");
	for (int outer = 0; outer < 3; outer++) {
		uint64_t token = proton_scope_enter(outer == 0 ? "x" : outer == 1 ? "y" : "z");

		for (long i = 0; i < 10; i++)
			request("inner", i, true);
		proton_scope_exit(token, NULL);
	}
	for (long i = 0; i < 9; i++) {
		char name[32];
		uint64_t token;

		snprintf(name, sizeof(name), "flood %ld", i);
		token = proton_scope_enter(name);
		for (long k = 0; k < 9; k++)
			request("below", i * 9 + k, true);
		proton_scope_exit(token, NULL);
	}
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(rec_count(profile, "x/inner 0/k"), 1);
	CHECK_U64(rec_count(profile, "x/(other)/k"), 6);
	CHECK_U64(rec_count(profile, "z/(other)/k"), 6);
	CHECK_U64(rec_count(profile, "(other)/below 12/k"), 1);
	CHECK_EQ(rec_node(profile, "(other)/below 13"), REC_NOWHERE);
	/* The kernels of the rest are one, and no scope is in between. */
	other = rec_node(profile, "(other)/(other)");
	CHECK_EQ(profile->frames[profile->nodes[other].frame].kind, FRAME_KERNEL);
	CHECK_U64(rec_count(profile, "(other)/(other)"), 8 * 9 - 4);
}

TEST(kernels_beyond_the_limit_share_one_kernel)
{
	set_limit("PROTON_MAX_CHILDREN", "3");
	int session = rec_start("a");
	for (long i = 0; i < 8; i++) {
		char name[32];

		snprintf(name, sizeof(name), "k %ld", i);
		rec_kernel(name);
	}
	rec_finalize(session, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK_U64(rec_count(profile, "k 2"), 1);
	CHECK_U64(rec_count(profile, "(other)"), 5);
	uint32_t node = rec_node(profile, "(other)");
	CHECK_EQ(profile->frames[profile->nodes[node].frame].kind, FRAME_KERNEL);
}

TEST(contexts_of_the_process_are_limited)
{
	set_limit("PROTON_MAX_CONTEXTS", "1000");
	int session = rec_start("a");
	for (long i = 0; i < 100; i++) {
		char name[32];
		uint64_t token;

		snprintf(name, sizeof(name), "outer %ld", i);
		token = proton_scope_enter(name);
		for (long k = 0; k < 100; k++)
			request("inner", k, false);
		proton_scope_exit(token, NULL);
	}
	/* Each context may have an (other) in addition. */
	CHECK_LE(rec_counter(session, "contexts"), 2000);
	CHECK(rec_counter(session, folded) > 90);
	rec_finalize(session, "none");
}

TEST(frames_beyond_the_limit_go_into_other)
{
	set_limit("PROTON_MAX_NAMES", "100");
	int session = rec_start("a");
	uint32_t first = proton_frame("mine", 4);
	CHECK_NE(first, PROTON_FRAME_OTHER);
	for (long i = 0; i < 1000; i++) {
		char name[32];
		int length = snprintf(name, sizeof(name), "n %ld", i);

		proton_scope_exit(proton_scope_enter_frame(proton_frame(name, (size_t)length)),
				  NULL);
	}
	CHECK_EQ(proton_frame("new", 3), PROTON_FRAME_OTHER);
	CHECK_EQ(proton_frame("mine", 4), first);
	CHECK_EQ(proton_frame("(other)", 7), PROTON_FRAME_OTHER);
	CHECK_LE(rec_counter(session, "contexts"), 101);
	rec_finalize(session, "none");
}

TEST(a_limit_of_zero_means_unlimited_and_invalid_ones_are_reported)
{
	set_limit("PROTON_MAX_CHILDREN", "0");
	set_limit("PROTON_MAX_CONTEXTS", "many");
	rec_begin_saying();
	int session = rec_start("a");
	for (long i = 0; i < 70000; i++)
		request("r", i, false);
	CHECK_U64(rec_counter(session, "contexts"), 70000);
	CHECK_EQ(rec_printed("PROTON_MAX_CONTEXTS: \"many\" is not a number; using 16777216"), 1);
	rec_finalize(session, "none");
}

TEST(texts_and_metric_names_beyond_the_limit_are_counted)
{
	int session = rec_start("a");

	for (long i = 0; i < 90000; i++) {
		char text[32];
		struct proton_metric metric = {
			.name = "id (pty)", .type = PROTON_METRIC_STRING, .value.string = text};

		snprintf(text, sizeof(text), "text %ld", i);
		CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	}
	CHECK_U64(rec_counter(session, folded), 90000 - 65536);
	uint64_t strings = rec_rows("a.proton", TABLE_STRINGS);
	for (long i = 0; i < 20000; i++) {
		char name[32];
		struct proton_metric metric = {
			.name = name, .type = PROTON_METRIC_INT64, .value.int64 = 1};

		snprintf(name, sizeof(name), "metric %ld", i);
		CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	}
	CHECK_LE(rec_rows("a.proton", TABLE_STRINGS), strings + 16384 * 3);
	CHECK(rec_counter(session, folded) > 90000 - 65536 + 3000);
	rec_finalize(session, "proton");
	{
		struct profile *profile = rec_load("a.proton");
		const struct profile_value *value = rec_value(profile, "", "id");

		CHECK_STR(profile_text(profile, (uint32_t)value->as.string), "(other)");
	}
}

TEST(a_service_with_ever_new_names_stays_small)
{
	const long count = TAP_IS_SANITIZED ? 200000 : 3000000;
	struct stat st;

	long before_kb = resident_kb();
	int session = rec_start("a");
	for (long i = 0; i < count; i++)
		request("request", i, false);
	CHECK_EQ(stat(rec_path("a.proton"), &st), 0);
	CHECK_LE(st.st_blocks * 512, 48 << 20);
	if (!TAP_IS_SANITIZED)
		CHECK_LE(resident_kb() - before_kb, 64 << 10);
	CHECK_U64(rec_counter(session, "metric values"), (uint64_t)count);
	CHECK_U64(rec_counter(session, folded), (uint64_t)count - 131072);
	rec_finalize(session, "none");
}
