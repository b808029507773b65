/* Traces larger than one extent of their tables, killed and corrupt: each row keeps its value. */
#include "unit/recorded_trace.h"

#include <malloc.h>

#include "export/export.h"

/* Four extents of each table, which are 64 KiB, 64 KiB, 128 KiB and 256 KiB. */
#define STEPS 17000
#define THREADS 3000 /* two extents of tracks */

static void *enter_once(void *unused)
{
	(void)unused;
	proton_scope_exit(proton_scope_enter("worker"), NULL);
	return NULL;
}

static void record_threads(void)
{
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		CHECK_EQ(pthread_create(&thread, NULL, enter_once, NULL), 0);
		pthread_join(thread, NULL);
	}
}

/* Step i has the metrics n = i and v = [2i, 2i + 1]. */
static void record_steps(void)
{
	for (int64_t i = 0; i < STEPS; i++) {
		int64_t pair[2] = {2 * i, 2 * i + 1};
		struct proton_metric metrics[2] = {
			{.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = i},
			{.name = "v",
			 .type = PROTON_METRIC_INT64_VECTOR,
			 .count = 2,
			 .value.int64s = pair},
		};
		uint64_t token = proton_scope_enter("step");

		proton_metrics_add(proton_scope_context(token), metrics, 2, NULL);
		proton_scope_exit(token, NULL);
	}
}

static void record_all(void)
{
	trace_start("a");
	record_threads();
	record_steps();
}

/* Checks the steps in the profile, which are the first ones; returns their number. */
static uint64_t check_steps(const struct profile *profile)
{
	const struct profile_trace *trace = profile->trace;
	uint64_t last_ns = 0;
	int64_t step = 0;

	for (uint64_t row = 1; row < trace->event_count; row++) {
		const struct row_event *event = trace_event(trace, row);
		const struct row_sample *vector, *number;

		if (!event || strcmp(event_path(profile, event), "step") != 0)
			continue;
		CHECK(event->start_ns >= last_ns && event->end_ns >= event->start_ns);
		last_ns = event->start_ns;
		vector = &trace->samples[event->link];
		if (event->link >= trace->sample_count ||
		    vector->as.vector + 2 >= trace->word_count)
			break; /* cut off */
		if (vector->next >= trace->sample_count)
			break;
		number = &trace->samples[vector->next];
		CHECK_EQ(number->as.int64, step);
		CHECK_U64(trace->words[vector->as.vector], 2);
		CHECK_U64(trace->words[vector->as.vector + 1], 2 * step);
		CHECK_U64(trace->words[vector->as.vector + 2], 2 * step + 1);
		step++;
	}
	return (uint64_t)step;
}

static void check_all(const struct profile *profile)
{
	uint64_t workers = 0;

	CHECK(profile->is_unfinished);
	CHECK(!profile->is_damaged);
	CHECK_U64(count_events(profile), STEPS + THREADS);
	CHECK_U64(check_steps(profile), STEPS);
	CHECK_U64(profile->trace->lane_count, THREADS + 1);
	for (uint32_t i = 0; i < profile->trace->lane_count; i++)
		CHECK_EQ(profile->trace->lanes[i].number, i);
	for (uint32_t row = 1; row < profile->trace->event_count; row++) {
		const struct row_event *event = trace_event(profile->trace, row);

		if (event && strcmp(event_path(profile, event), "worker") == 0)
			CHECK_EQ(event->lane, workers++);
	}
	CHECK_U64(workers, THREADS);
}

TEST(a_killed_trace_of_many_extents_keeps_every_value)
{
	mallopt(M_PERTURB, 0xa5); /* freed memory no longer has its values */
	rec_end_child(record_all, SIGKILL);
	struct profile *profile = rec_load("a.proton");
	check_all(profile);
}

TEST(a_killed_trace_of_many_extents_outlives_the_bytes_it_was_read_from)
{
	struct profile *profile;
	char *bytes;
	size_t length;

	mallopt(M_PERTURB, 0xa5);
	rec_end_child(record_all, SIGKILL);
	CHECK_DONE(file_read_all(rec_path("a.proton"), NULL, &bytes, &length, &err));
	CHECK_DONE(profile_load_bytes("a", bytes, length, &profile, &err));
	memset(bytes, 0xa5, length);
	free(bytes);
	check_all(profile);
	profile_free(profile);
}

static void check_export(const struct export_format *format, const struct profile *profile)
{
	struct out out;

	out_init(&out, -1);
	CHECK_DONE(format->write(profile, &out, &err));
	CHECK_LT(0, out.length);
	out_fini(&out);
}

/* Reads the beginning of a trace as a corrupt trace with valid rows; returns its steps. */
static uint64_t check_cut(const char *bytes, size_t length)
{
	struct profile *profile;
	uint64_t steps = 0;

	CHECK_DONE(profile_load_bytes("a", bytes, length, &profile, &err));
	CHECK(profile->is_damaged);
	if (profile->trace) {
		steps = check_steps(profile);
		check_export(export_format_find("chrome_trace"), profile);
		check_export(export_format_find("perfetto"), profile);
	}
	profile_free(profile);
	return steps;
}

TEST(a_truncated_killed_trace_keeps_the_values_before_the_end)
{
	uint64_t before = 0;
	uint64_t max = 0;
	char *bytes;
	size_t length;

	mallopt(M_PERTURB, 0xa5);
	rec_end_child(record_all, SIGKILL);
	CHECK_DONE(file_read_all(rec_path("a.proton"), NULL, &bytes, &length, &err));
	for (size_t cut = PROFILE_FILE_HEADER_BYTES; cut < length; cut += length / 24 + 1) {
		char *part = malloc(cut); /* of that size: sanitizers see what is read beyond */
		uint64_t steps;

		memcpy(part, bytes, cut);
		steps = check_cut(part, cut);
		free(part);
		CHECK(steps >= before);
		before = steps;
		max = steps > max ? steps : max;
	}
	CHECK(max > STEPS / 2);
	free(bytes);
}
