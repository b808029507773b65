/* record/metrics and store: sums of values of each type, and rejected values. */
#include "unit/recorded.h"

static int add(const char *name, enum proton_metric_type type, int64_t i, double d,
	       struct proton_error *err)
{
	struct proton_metric metric = {.name = name, .type = type};

	if (type == PROTON_METRIC_INT64)
		metric.value.int64 = i;
	else
		metric.value.float64 = d;
	return proton_metrics_add(proton_context_here(), &metric, 1, err);
}

static int add_int(const char *name, int64_t value)
{
	return add(name, PROTON_METRIC_INT64, value, 0, NULL);
}

TEST(numbers_add_up_and_properties_are_replaced)
{
	rec_start("a");
	for (int i = 1; i <= 3; i++) {
		CHECK_EQ(add_int("sum", i), PROTON_OK);
		CHECK_EQ(add_int("own (exc)", i), PROTON_OK);
		CHECK_EQ(add_int("last(pty)", i), PROTON_OK);
		CHECK_EQ(add_int("all (inc)", i), PROTON_OK);
		CHECK_EQ(add("real", PROTON_METRIC_DOUBLE, 0, i / 4.0, NULL), PROTON_OK);
	}
	struct profile *profile = rec_finish();
	CHECK_EQ(rec_value(profile, "", "sum")->as.int64, 6);
	const struct profile_value *value = rec_value(profile, "", "own");
	CHECK_EQ(value->as.int64, 6);
	CHECK_EQ(profile->metrics[value->metric].flags, METRIC_EXCLUSIVE);
	value = rec_value(profile, "", "last");
	CHECK_EQ(value->as.int64, 3);
	CHECK_EQ(profile->metrics[value->metric].flags, METRIC_PROPERTY);
	value = rec_value(profile, "", "all");
	CHECK_EQ(value->as.int64, 6);
	CHECK_EQ(profile->metrics[value->metric].flags, 0);
	CHECK_NEAR(rec_value(profile, "", "real")->as.float64, 1.5, 0);
}

TEST(a_name_that_is_only_a_suffix_or_spaces_stays_whole)
{
	rec_start("a");
	CHECK_EQ(add_int("(exc)", 1), PROTON_OK);
	CHECK_EQ(add_int(" (pty) ", 2), PROTON_OK);
	CHECK_EQ(add_int(" ", 4), PROTON_OK);
	struct profile *profile = rec_finish();
	CHECK_EQ(profile->metric_count, 3);
	CHECK_EQ(rec_value(profile, "", "(exc)")->as.int64, 1);
	CHECK_EQ(rec_value(profile, "", " (pty) ")->as.int64, 2);
	CHECK_EQ(rec_value(profile, "", " ")->as.int64, 4);
}

TEST(a_name_may_be_given_by_its_number)
{
	uint32_t id = proton_metric_name("prepared (exc)"); /* before any session */
	struct proton_metric metric = {
		.name = "prepared (exc)", .type = PROTON_METRIC_INT64, .value.int64 = 3};
	struct proton_error err;

	CHECK(id != 0);
	rec_start("a");
	CHECK_U64(proton_metric_name("prepared (exc)"), id);
	CHECK_U64(proton_metric_name(""), 0);
	CHECK_U64(proton_metric_name(NULL), 0);
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	metric.name_id = id;
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	metric.name_id = id + 1;
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, &err), PROTON_E_INVALID);
	struct profile *profile = rec_finish();
	const struct profile_value *value = rec_value(profile, "", "prepared");
	CHECK_EQ(value->as.int64, 6);
	CHECK_EQ(profile->metrics[value->metric].flags, METRIC_EXCLUSIVE);
}

TEST(the_first_suffix_of_a_name_counts)
{
	rec_start("a");
	CHECK_EQ(add_int("n", 1), PROTON_OK);
	CHECK_EQ(add_int("n (pty)", 1), PROTON_OK);
	struct profile *profile = rec_finish();
	CHECK_EQ(profile->metric_count, 1);
	CHECK_EQ(rec_value(profile, "", "n")->as.int64, 2);
}

TEST(another_type_is_refused_with_the_text_users_know)
{
	struct proton_error err;
	int session = rec_start("a");

	CHECK_EQ(add("a", PROTON_METRIC_DOUBLE, 0, 1.0, &err), PROTON_OK);
	CHECK_EQ(add("a", PROTON_METRIC_INT64, 1, 0, &err), PROTON_E_TYPE);
	CHECK_STR(err.text,
		  "Metric value type mismatch for a: an integer after a float in the same context; "
		  "use one type per metric name");
	CHECK_U64(rec_counter(session, "lost: metric value of a different type"), 1);
	rec_finalize(session, NULL);
}

/* One value in a scope. */
static void enter_and_add(const char *name, const char *metric, enum proton_metric_type type,
			  int64_t int64, double float64)
{
	uint64_t scope = proton_scope_enter(name);

	CHECK_EQ(add(metric, type, int64, float64, NULL), PROTON_OK);
	proton_scope_exit(scope, NULL);
}

TEST(numbers_of_both_types_in_different_contexts_are_one_metric)
{
	rec_start("a");
	enter_and_add("x", "a", PROTON_METRIC_INT64, 3, 0);
	enter_and_add("y", "a", PROTON_METRIC_DOUBLE, 0, 0.5);
	enter_and_add("z", "a (exc)", PROTON_METRIC_INT64, 4, 0);
	enter_and_add("x", "a", PROTON_METRIC_INT64, 1, 0);
	struct profile *profile = rec_finish();
	CHECK_EQ(profile->metric_count, 1);
	CHECK_EQ(profile->metrics[0].type, PROTON_METRIC_DOUBLE);
	CHECK(rec_value(profile, "x", "a")->as.float64 == 4);
	CHECK(rec_value(profile, "y", "a")->as.float64 == 0.5);
	CHECK(rec_value(profile, "z", "a")->as.float64 == 4);
}

TEST(a_property_is_text_in_one_context_and_a_number_in_another)
{
	struct proton_metric text = {
		.name = "a (pty)", .type = PROTON_METRIC_STRING, .value.string = "one"};
	struct proton_error err = {0};

	rec_start("a");
	enter_and_add("x", "a (pty)", PROTON_METRIC_DOUBLE, 0, 1);
	uint64_t scope = proton_scope_enter("y");
	CHECK_OK(proton_metrics_add(proton_context_here(), &text, 1, &err), err);
	CHECK_EQ(add("a (pty)", PROTON_METRIC_DOUBLE, 0, 1, &err), PROTON_E_TYPE);
	CHECK_STR(
		err.text,
		"Metric value type mismatch for a: a float after a string in the same context; use "
		"one type per metric name");
	proton_scope_exit(scope, NULL);
	enter_and_add("x", "a (pty)", PROTON_METRIC_DOUBLE, 0, 2);
	struct profile *profile = rec_finish();
	CHECK_EQ(profile->metric_count, 2);
	CHECK(rec_value(profile, "x", "a")->as.float64 == 2);
	CHECK_STR(profile_text(profile, rec_value(profile, "y", "a")->as.string), "one");
}

TEST(vectors_add_element_by_element_and_keep_their_length)
{
	int64_t ints[] = {1, 2, 3};
	double reals[] = {0.5, 0.25};
	struct proton_metric metrics[] = {
		{.name = "v", .type = PROTON_METRIC_INT64_VECTOR, .count = 3, .value.int64s = ints},
		{.name = "w",
		 .type = PROTON_METRIC_DOUBLE_VECTOR,
		 .count = 2,
		 .value.float64s = reals},
		{.name = "none", .type = PROTON_METRIC_INT64_VECTOR},
	};
	struct proton_error err = {0};
	double real;

	rec_start("a");
	CHECK_OK(proton_metrics_add(proton_context_here(), metrics, 3, &err), err);
	CHECK_OK(proton_metrics_add(proton_context_here(), metrics, 3, &err), err);
	metrics[0].count = 2;
	CHECK_EQ(proton_metrics_add(proton_context_here(), metrics, 2, &err), PROTON_E_TYPE);
	CHECK_STR(err.text, "Vector metric size mismatch for valueId 0 (v): current=3, new=2");
	struct profile *profile = rec_finish();
	const uint64_t *words = profile->words + rec_value(profile, "", "v")->as.vector;
	CHECK_U64(words[0], 3);
	CHECK_U64(words[3], 6);
	words = profile->words + rec_value(profile, "", "w")->as.vector;
	memcpy(&real, &words[2], sizeof(real));
	CHECK_NEAR(real, 0.75, 0); /* the call that failed for v still added w */
	words = profile->words + rec_value(profile, "", "none")->as.vector;
	CHECK_U64(words[0], 0);
}

TEST(many_empty_vectors_leave_a_profile_whole)
{
	static const char *const names[] = {"u", "v", "w"};

	rec_start("a");
	for (int i = 0; i < 3; i++) {
		struct proton_metric metric = {.name = names[i],
					       .type = PROTON_METRIC_INT64_VECTOR};

		CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	}
	struct profile *profile = rec_finish();
	CHECK(!profile->is_damaged);
	for (int i = 0; i < 3; i++)
		CHECK_U64(profile->words[rec_value(profile, "", names[i])->as.vector], 0);
}

TEST(strings_are_replaced)
{
	struct proton_metric metric = {.name = "note", .type = PROTON_METRIC_STRING};

	rec_start("a");
	metric.value.string = "first";
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	metric.value.string = "second";
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, NULL), PROTON_OK);
	struct profile *profile = rec_finish();
	CHECK_STR(profile_text(profile, rec_value(profile, "", "note")->as.string), "second");
}

static const char beyond[] = "lost: integer metric beyond 64 bits";

TEST(integer_sums_stay_at_the_end_of_their_range_and_count_a_loss)
{
	int64_t elements[] = {INT64_MIN, INT64_MAX, 1};
	struct proton_metric vector = {.name = "v",
				       .type = PROTON_METRIC_INT64_VECTOR,
				       .count = 3,
				       .value.int64s = elements};
	int session = rec_start("a");

	CHECK_EQ(add_int("up", INT64_MAX), PROTON_OK);
	CHECK_EQ(add_int("last (pty)", INT64_MAX), PROTON_OK);
	CHECK_EQ(add_int("last (pty)", INT64_MAX), PROTON_OK);
	CHECK_U64(rec_counter(session, beyond), 0);
	CHECK_EQ(add_int("up", 1), PROTON_OK);
	CHECK_U64(rec_counter(session, beyond), 1);
	CHECK_EQ(add_int("down", INT64_MIN), PROTON_OK);
	CHECK_EQ(add_int("down", -1), PROTON_OK);
	CHECK_U64(rec_counter(session, beyond), 2);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(proton_metrics_add(proton_context_here(), &vector, 1, NULL), PROTON_OK);
	CHECK_U64(rec_counter(session, beyond), 4);
	struct profile *profile = rec_finish();
	CHECK_EQ(rec_value(profile, "", "up")->as.int64, INT64_MAX);
	CHECK_EQ(rec_value(profile, "", "down")->as.int64, INT64_MIN);
	const uint64_t *words = profile->words + rec_value(profile, "", "v")->as.vector;
	CHECK_EQ((int64_t)words[1], INT64_MIN);
	CHECK_EQ((int64_t)words[2], INT64_MAX);
	CHECK_EQ((int64_t)words[3], 2);
}

TEST(integer_sums_over_phases_stay_at_the_end_of_their_range_and_count_a_loss)
{
	int session = rec_start("a");
	uint64_t lost = 0;

	CHECK_EQ(add_int("n", INT64_MAX), PROTON_OK);
	CHECK_EQ(proton_phase_advance(session, NULL, NULL), PROTON_OK);
	CHECK_EQ(add_int("n", INT64_MAX), PROTON_OK);
	struct profile *profile = rec_finish();
	CHECK_EQ(rec_value(profile, "", "n")->as.int64, INT64_MAX);
	for (size_t i = 0; i < profile->counter_count; i++)
		if (strcmp(profile_text(profile, profile->counters[i].name), beyond) == 0)
			lost += profile->counters[i].value;
	CHECK_U64(lost, 1);
}

TEST(invalid_metrics_are_rejected)
{
	struct proton_metric metric = {.name = "", .type = PROTON_METRIC_INT64};
	struct proton_error err;

	rec_start("a");
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, &err), PROTON_E_INVALID);
	metric.name = "n";
	metric.type = (enum proton_metric_type)77;
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, &err), PROTON_E_INVALID);
	metric.type = PROTON_METRIC_STRING;
	metric.value.string = NULL;
	CHECK_EQ(proton_metrics_add(proton_context_here(), &metric, 1, &err), PROTON_E_INVALID);
	CHECK_HAS(err.text, "n has an unknown type or no value");
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(metrics_of_a_deactivated_session_are_not_recorded)
{
	int session = rec_start("a");

	proton_deactivate(session, false, NULL);
	CHECK_EQ(add_int("n", 1), PROTON_OK);
	CHECK_PTR(rec_value(rec_finish(), "", "n"), NULL);
}

TEST(kernel_rows_count_sum_min_max_and_sort_into_buckets)
{
	uint64_t in_buckets = 0;

	rec_start("a");
	for (int i = 0; i < 500; i++)
		rec_kernel("k");
	rec_kernel("once");
	struct profile *profile = rec_finish();
	const struct profile_kernel *kernel =
		&profile->kernels[profile->nodes[rec_node(profile, "k")].first_kernel];
	CHECK_U64(kernel->count, 500);
	CHECK_LE(kernel->min_ns, kernel->max_ns);
	CHECK_LE(kernel->min_ns * 500, kernel->total_ns);
	CHECK_LE(kernel->total_ns, kernel->max_ns * 500);
	CHECK_NE(kernel->histogram, 0);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
		in_buckets += profile->histograms[kernel->histogram].bucket[i];
	CHECK_U64(in_buckets, 500);
	CHECK_STR(profile_text(profile, profile->devices[kernel->device].type), "CPU");
	kernel = &profile->kernels[profile->nodes[rec_node(profile, "once")].first_kernel];
	CHECK_U64(kernel->count, 1);
	CHECK_U64(kernel->min_ns, kernel->total_ns);
}
