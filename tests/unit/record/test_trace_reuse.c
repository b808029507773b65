/* Traces of cleared phases: their rows are used again, and events that are kept do not change. */
#include "unit/recorded_trace.h"

#include "record/sets/session.h"

#define ROUNDS 60
#define SCOPES 1000

static uint64_t rows_of(int id, enum table_id table)
{
	struct session *session = registry_get(id, NULL);
	uint64_t rows = session->store.file.tables[table].rows;

	pthread_mutex_unlock(&registry.lock);
	return rows;
}

static uint64_t file_bytes(int id)
{
	struct session *session = registry_get(id, NULL);
	uint64_t bytes = session->store.file.file_bytes;

	pthread_mutex_unlock(&registry.lock);
	return bytes;
}

static void add_values(uint64_t token, int64_t number)
{
	struct proton_metric metrics[2] = {
		{.name = "n", .type = PROTON_METRIC_INT64, .value.int64 = number},
		{.name = "x", .type = PROTON_METRIC_DOUBLE, .value.float64 = 0.5},
	};

	CHECK_EQ(proton_metrics_add(proton_scope_context(token), metrics, 2, NULL), PROTON_OK);
}

static void record_scopes(int count)
{
	for (int i = 0; i < count; i++) {
		uint64_t token = proton_scope_enter_timed("step");

		add_values(token, i);
		rec_kernel("k");
		proton_scope_exit(token, NULL);
	}
}

static void *run_thread(void *unused)
{
	(void)unused;
	record_scopes(10);
	return NULL;
}

static void run_threads(int count)
{
	for (int i = 0; i < count; i++) {
		pthread_t thread;

		CHECK_EQ(pthread_create(&thread, NULL, run_thread, NULL), 0);
		pthread_join(thread, NULL);
	}
}

TEST(rows_of_cleared_phases_are_used_again)
{
	int id = trace_start("a");
	uint64_t bytes = 0;

	for (int round = 0; round < ROUNDS; round++) {
		record_scopes(SCOPES);
		rec_next_phase(id);
		if (round == ROUNDS / 2)
			bytes = file_bytes(id);
	}
	CHECK_U64(file_bytes(id), bytes);
	/* Two events and two samples of a scope, and chunks of 2048 rows around them. */
	CHECK_LT(rows_of(id, TABLE_EVENTS), 2 * SCOPES + 4 * 2048);
	CHECK_LT(rows_of(id, TABLE_SAMPLES), 2 * SCOPES + 4 * 2048);
	rec_finalize(id, "proton");
}

TEST(threads_that_have_ended_keep_no_rows)
{
	int id = trace_start("a");

	for (int round = 0; round < ROUNDS; round++) {
		run_threads(20);
		rec_next_phase(id);
	}
	/* Threads one after another: 400 events and samples of a phase in chunks of 32 and 128. */
	CHECK_LT(rows_of(id, TABLE_EVENTS), 2000);
	CHECK_LT(rows_of(id, TABLE_SAMPLES), 2000);
	rec_finalize(id, "proton");
}

/* Events of a kept phase have their values, whatever is recorded after phases around it. */
TEST(events_of_kept_phases_and_open_scopes_stay)
{
	int id = trace_start("a");
	uint64_t outer = proton_scope_enter("outer");
	const struct row_event *event;

	record_scopes(SCOPES);
	rec_next_phase(id);
	for (int i = 0; i < 5; i++) {
		uint64_t token = proton_scope_enter("kept");

		add_values(token, 100 + i);
		proton_scope_exit(token, NULL);
	}
	rec_advance(id);
	for (int round = 0; round < 5; round++) {
		record_scopes(SCOPES);
		CHECK_EQ(proton_phase_clear(id, rec_advance(id) - 1, false, NULL), PROTON_OK);
	}
	add_values(outer, 7); /* its phase is cleared, its row is not used again */
	proton_scope_exit(outer, NULL);
	record_scopes(3);
	rec_finalize(id, "proton");
	struct profile *profile = rec_load("a.proton");
	CHECK(!profile->is_damaged);
	CHECK_U64(count_events(profile), 5 + 2 * 3);
	for (int i = 0; i < 5; i++) {
		const struct row_sample *samples = profile->trace->samples;
		uint32_t row = find_event(profile, EVENT_SCOPE, "outer/kept", i);

		CHECK(row);
		event = &profile->trace->events[row];
		CHECK(event->end_ns >= event->start_ns);
		CHECK(event->link);
		CHECK_EQ(samples[event->link].as.float64 == 0.5, 1);
		CHECK_EQ(samples[samples[event->link].next].as.int64, 100 + i);
		CHECK_EQ(samples[samples[event->link].next].next, 0);
	}
}
