/*
 * Instrumentation backend with ring buffers that are too small, with a fake driver: metrics of
 * scopes when records of the enclosing scopes were overwritten.
 */
#include "unit/intra/instrumented.h"
#include "unit/recorded_trace.h"

#include "export/export.h"

#define FUNCTION 0x1234
#define STREAM 7
#define CAPACITY 8 /* records of a ring buffer */

static struct instrument_layout layout;

enum code {
	PARTITION_START = 1,
	PARTITION_END,
	LOOP_START,
	LOOP_END,
	LOAD,
	DOT
};

/* "partition" around "loop" around "load" and "dot". */
static void add_kernel(void)
{
	static const char *const names[] = {"partition", "loop", "load", "dot"};

	layout = (struct instrument_layout){
		.unit_count = 2,
		.warps_per_unit = 1,
		.warp_count = 2,
		.ring_bytes = CAPACITY * INSTRUMENT_RECORD_BYTES,
		.cta_stride = 1,
		.units = {0, 1},
	};
	layout.cta_bytes = instrumented_cta_bytes(&layout);
	for (uint32_t i = 0; i < 4; i++)
		CHECK_U64(layout_scope(&layout, names[i], strlen(names[i])), i);
	for (uint32_t i = 0; i < 2; i++) {
		layout_code(&layout, i, INSTRUMENT_START);
		layout_code(&layout, i, INSTRUMENT_END);
	}
	layout_code(&layout, 2, INSTRUMENT_SCOPE);
	layout_code(&layout, 3, INSTRUMENT_SCOPE);
	instrumented_add(&layout, FUNCTION, "mm");
}

/* A warp that records one record after the other. */
struct warp {
	uint8_t *ring;
	uint64_t clock;
	uint32_t count;
};

static void put(struct warp *warp, enum code code, uint32_t payload)
{
	struct instrument_record record = {(uint32_t)warp->clock, (uint32_t)code << 24 | payload};

	memcpy(warp->ring + (size_t)(warp->count++ % CAPACITY) * sizeof(record), &record,
	       sizeof(record));
	warp->clock += payload;
}

/* The partition takes 200 cycles more than its loop, each iteration 400. */
static void write_warp(uint8_t *cta, uint32_t unit, uint32_t turns)
{
	struct warp warp = {.ring = cta + layout_ring_at(&layout, unit), .clock = 100000};
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.processor = 3,
		.start_ns = 1000000,
		.end_ns = 1000000 + 20000,
		.start_clock = warp.clock,
		.end_clock = warp.clock + 40000,
	};

	put(&warp, PARTITION_START, 0);
	warp.clock += 100;
	put(&warp, LOOP_START, 0);
	for (uint32_t i = 0; i < turns; i++) {
		put(&warp, LOAD, 100);
		put(&warp, DOT, 300);
	}
	put(&warp, LOOP_END, 0);
	warp.clock += 100;
	put(&warp, PARTITION_END, 0);
	header.count = warp.count;
	memcpy(cta + layout_header_at(&layout, unit), &header, sizeof(header));
}

/* Warp 0 has space for its 2 iterations; of the 20 of warp 1 the last 3 remain. */
static void launch(void)
{
	uint64_t address = proton_instrument_buffer(layout.cta_bytes, 128, STREAM);

	CHECK(address != 0);
	write_warp((uint8_t *)(uintptr_t)address, 0, 2);
	write_warp((uint8_t *)(uintptr_t)address, 1, 20);
	proton_instrument_launched(FUNCTION, STREAM);
}

static struct profile *run(const char *data, uint32_t launches)
{
	if (!getenv("PROTON_CUDA_PATH"))
		SKIP("no fake libraries: run by `meson test`");
	instrumented_start(data, "");
	add_kernel();
	for (uint32_t i = 0; i < launches; i++)
		launch();
	rec_begin_saying();
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	layout_fini(&layout);
	return rec_load("a.proton");
}

static int64_t value_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	return value ? value->as.int64 : -1;
}

TEST(scopes_with_overwritten_starts_keep_their_parents)
{
	struct profile *profile = run("tree", 2);

	/* Nothing is next to its parent. */
	CHECK_EQ(value_of(profile, "mm/loop", "executions"), -1);
	CHECK_EQ(value_of(profile, "mm/load", "executions"), -1);
	CHECK_EQ(value_of(profile, "mm/partition/load", "executions"), -1);
	CHECK_EQ(value_of(profile, "mm/partition/loop/load", "executions"), 2 * (2 + 3));
	CHECK_EQ(value_of(profile, "mm/partition/loop/load", "partial_executions"), -1);
	/* Lower bounds. */
	CHECK_EQ(value_of(profile, "mm/partition/loop", "cycles"), 2 * (800 + 1200));
	CHECK_EQ(value_of(profile, "mm/partition", "cycles"), 2 * (1000 + 1300));
	CHECK_EQ(value_of(profile, "mm/partition", "executions"), 4);
	CHECK_EQ(value_of(profile, "mm/partition", "partial_executions"), 2);
	/* Of whole executions. */
	CHECK_EQ(value_of(profile, "mm/partition", "min_cycles"), 1000);
	CHECK_EQ(value_of(profile, "mm/partition", "max_cycles"), 1000);
	/* Twice 8 and 44 records: 36 of one of the two warps were overwritten. */
	CHECK_EQ(rec_printed("proton: mm: 72 of 104 records were overwritten, in 1 warps"), 1);
	CHECK_EQ(rec_printed("proton: mm: executions recorded only in part, so their cycles are a "
			     "lower bound: 2 of partition, 2 of loop"),
		 1);
}

TEST(a_warning_is_printed_once_however_often_a_program_flushes)
{
	int session;

	if (!getenv("PROTON_CUDA_PATH"))
		SKIP("no fake libraries: run by `meson test`");
	for (int run = 1; run <= 2; run++) {
		session = instrumented_start("tree", "");
		if (run == 1)
			add_kernel();
		rec_begin_saying();
		for (int i = 0; i < 20; i++) {
			launch();
			CHECK_EQ(proton_deactivate(session, true, NULL), PROTON_OK);
			CHECK_EQ(proton_activate(session, NULL), PROTON_OK);
		}
		rec_finalize(PROTON_ALL_SESSIONS, "proton");
		CHECK_EQ(rec_printed("proton: mm: 36 of 52 records"), 1);
		CHECK_EQ(rec_printed(" records were overwritten"), 1);
	}
	layout_fini(&layout);
}

TEST(slices_with_overwritten_starts_are_drawn_from_the_oldest_record)
{
	static const char *const paths[] = {"mm/partition", "mm/partition/loop",
					    "mm/partition/loop/load"};
	struct profile *profile = run("trace", 1);
	uint64_t start_ns = 0;
	unsigned partitions[2] = {0};
	unsigned loops[2] = {0};
	unsigned loads[2] = {0};
	struct out out;

	for (uint32_t i = 0; i < 3; i++) {
		bool is_found = false;

		for (uint64_t row = 1; row < profile->trace->event_count; row++) {
			const struct row_event *event = trace_event(profile->trace, row);

			if (!event || strcmp(event_path(profile, event), paths[i]) != 0)
				continue;
			/* Warp 0 has whole executions. */
			if (i < 2 && !(event->flags & EVENT_PARTIAL))
				continue;
			if (i == 2 && event->start_ns < start_ns)
				continue;
			CHECK_EQ(!(event->flags & EVENT_PARTIAL), i == 2);
			if (!start_ns)
				start_ns = event->start_ns;
			CHECK_U64(event->start_ns, start_ns);
			is_found = true;
			break;
		}
		CHECK(is_found);
	}
	out_init(&out, -1);
	CHECK_DONE(export_chrome_trace(profile, &out, &err));
	out_byte(&out, '\0');
	for (char *line = strtok(out.bytes, "\n"); line; line = strtok(NULL, "\n")) {
		bool is_partial = strstr(line, "\"partial\":true") != NULL;

		partitions[is_partial] += strstr(line, "\"name\":\"partition\"") != NULL;
		loops[is_partial] += strstr(line, "\"name\":\"loop\"") != NULL;
		loads[is_partial] += strstr(line, "\"name\":\"load\"") != NULL;
	}
	CHECK(partitions[true] && partitions[false] && loops[true]);
	CHECK(loads[false] && !loads[true]);
	out_fini(&out);
}
