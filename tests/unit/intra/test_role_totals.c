/* Warp metrics with a fake driver: roles, critical path and async overlap in the profile. */
#include "unit/intra/instrumented.h"

#include "export/export.h"
#include "model/warp_metrics.h"

#define FUNCTION 0x1234
#define STREAM 7

#define DEFAULT "default@ws.py:5"
#define PARTITION "partition0@ws.py:20"
#define CONSUMER "mm/<warps>/" DEFAULT " (warps 0-1)/"
#define PRODUCER "mm/<warps>/" PARTITION " (warp 4)/"

static struct instrument_layout layout;

enum code {
	DEFAULT_START = 1,
	DEFAULT_END,
	PARTITION_START,
	PARTITION_END,
	WAIT,
	DOT,
	COPY_START,
	COPY_END
};

static void start(const char *mode)
{
	if (!getenv("PROTON_CUDA_PATH"))
		SKIP("no fake libraries: run by `meson test`");
	instrumented_start(NULL, mode);
}

static void add_kernel(void)
{
	layout = (struct instrument_layout){
		.unit_count = 3,
		.warps_per_unit = 1,
		.warp_count = 8,
		.ring_bytes = 64,
		.slack_bytes = 0,
		.cta_stride = 1,
		.units = {0, 1, 4},
	};
	layout.cta_bytes = instrumented_cta_bytes(&layout);
	layout_scope(&layout, DEFAULT, strlen(DEFAULT));
	layout_scope(&layout, PARTITION, strlen(PARTITION));
	layout_scope(&layout, "wait_barrier@ws.py:8", 20);
	layout_scope(&layout, "dot@ws.py:9", 11);
	layout_scope(&layout, "copy", 4);
	for (uint32_t i = 0; i < 2; i++) {
		layout_code(&layout, i, INSTRUMENT_START);
		layout_code(&layout, i, INSTRUMENT_END);
	}
	layout_code(&layout, 2, INSTRUMENT_SCOPE);
	layout_code(&layout, 3, INSTRUMENT_SCOPE);
	layout_code(&layout, 4, INSTRUMENT_EVENT_START);
	layout_code(&layout, 4, INSTRUMENT_EVENT_END);
	instrumented_add(&layout, FUNCTION, "mm");
}

static void put(uint8_t *cta, uint32_t unit, uint64_t clock, enum code code, uint32_t payload)
{
	struct instrument_unit_header header;
	struct instrument_record record = {(uint32_t)clock, (uint32_t)code << 24 | payload};

	memcpy(&header, cta + layout_header_at(&layout, unit), sizeof(header));
	memcpy(cta + layout_ring_at(&layout, unit) + (size_t)header.count++ * 8, &record,
	       sizeof(record));
	memcpy(cta + layout_header_at(&layout, unit), &header, sizeof(header));
}

/*
 * In cycles: the producer starts at 100 and starts a copy at 200, for which the consumers wait from
 * 150 to 800; they multiply until 1200. Everything ends at 1400.
 */
static void write_cta(uint8_t *cta, uint64_t clock)
{
	for (uint32_t unit = 0; unit < 3; unit++) {
		struct instrument_unit_header header = {
			.magic = INSTRUMENT_MAGIC,
			.start_ns = 1000000,
			.start_clock = clock,
			.end_ns = 1000000 + 700,
			.end_clock = clock + 1400 - unit,
		};

		memcpy(cta + layout_header_at(&layout, unit), &header, sizeof(header));
	}
	for (uint32_t unit = 0; unit < 2; unit++) {
		put(cta, unit, clock + 110, DEFAULT_START, 0);
		put(cta, unit, clock + 150, WAIT, 650);
		put(cta, unit, clock + 810 + unit, COPY_END, 0); /* one copy, seen by both */
		put(cta, unit, clock + 830, DOT, 370);
		put(cta, unit, clock + 1250, DEFAULT_END, 0);
	}
	put(cta, 2, clock + 100, PARTITION_START, 0);
	put(cta, 2, clock + 200, COPY_START, 0);
	put(cta, 2, clock + 240, PARTITION_END, 0);
}

static void launch(uint32_t ctas)
{
	uint64_t address = proton_instrument_buffer((size_t)ctas * layout.cta_bytes, 128, STREAM);

	CHECK(address);
	for (uint32_t i = 0; i < ctas; i++)
		write_cta((uint8_t *)(uintptr_t)address + (size_t)i * layout.cta_bytes,
			  0x1ffffff00 + i * 77);
	proton_instrument_launched(FUNCTION, STREAM);
}

static struct profile *finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	layout_fini(&layout);
	return rec_load("a.proton");
}

static int64_t value_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	if (!value)
		FAIL("no %s at %s", metric, path);
	return value->as.int64;
}

static void check_ctas(const struct profile *profile, int64_t recorded, int64_t ctas)
{
	CHECK_EQ(value_of(profile, "mm/<warps>", WARPS_RECORDED_CTAS), recorded);
	CHECK_EQ(value_of(profile, "mm/<warps>", WARPS_SAMPLED_CTAS), ctas);
	CHECK_EQ(value_of(profile, "mm/<warps>", WARPS_CTA_CYCLES), ctas * 1400);
	CHECK_EQ(value_of(profile, CONSUMER, WARPS_SAMPLED_WARPS), ctas * 2);
	CHECK_EQ(value_of(profile, CONSUMER, WARPS_WARP_CYCLES), ctas * 2800);
	CHECK_EQ(value_of(profile, CONSUMER, WARPS_IDLE_CYCLES), ctas);
	CHECK_EQ(value_of(profile, CONSUMER "wait_barrier@ws.py:8", WARPS_WAIT_CYCLES),
		 ctas * 1300);
	CHECK_EQ(value_of(profile, CONSUMER "dot@ws.py:9", WARPS_BUSY_CYCLES), ctas * 740);
	CHECK_EQ(value_of(profile, PRODUCER, WARPS_IDLE_CYCLES), ctas * (1400 - 140));
	CHECK_EQ(value_of(profile, PRODUCER PARTITION, WARPS_BUSY_CYCLES), ctas * 140);
	CHECK_EQ(value_of(profile, "mm/<warps>/<asynchronous>/copy", WARPS_ASYNC_CYCLES),
		 ctas * 610);
	CHECK_EQ(value_of(profile, "mm/<warps>/<asynchronous>/copy", WARPS_OVERLAPPED_CYCLES),
		 ctas * 10);
	/* Backwards: 150 outside scopes, 50, the dot, 30, the copy, the producer's 100, 100. */
	CHECK_EQ(value_of(profile, CONSUMER "dot@ws.py:9", WARPS_PATH_CYCLES), ctas * 370);
	CHECK_EQ(value_of(profile, CONSUMER DEFAULT, WARPS_PATH_CYCLES), ctas * (50 + 30));
	CHECK_EQ(value_of(profile, CONSUMER WARPS_OUTSIDE_FRAME, WARPS_PATH_CYCLES),
		 ctas * (150 + 100));
	CHECK_EQ(value_of(profile, CONSUMER "wait_barrier@ws.py:8", WARPS_PATH_CYCLES), 0);
	CHECK_EQ(value_of(profile, PRODUCER PARTITION, WARPS_PATH_CYCLES), ctas * 100);
	CHECK_EQ(value_of(profile, "mm/<warps>/<asynchronous>/copy", WARPS_PATH_CYCLES),
		 ctas * 600);
}

TEST(roles_and_their_path)
{
	start("default");
	add_kernel();
	launch(4);
	launch(4);
	struct profile *profile = finish();
	check_ctas(profile, 8, 8);
	CHECK_EQ(value_of(profile, "mm/" DEFAULT "/dot@ws.py:9", "cycles"), 8 * 740);
}

/* At most 32 CTAs per launch, and after eight launches those of every 64th. */
TEST(sampled_ctas)
{
	start("default");
	add_kernel();
	for (int i = 0; i < 70; i++)
		launch(i == 64 ? 64 : 65);
	struct profile *profile = finish();
	/* every third of 65, with varying first ones: 22, 22 or 21; then every second */
	check_ctas(profile, 69 * 65 + 64, 6 * 22 + 2 * 21 + 32);
}

/* Subtracted overhead would shift a warp's clock against the others'. */
TEST(record_overhead_does_not_shift_clocks)
{
	setenv("PROTON_INSTRUMENT_COST", "10,20", true);
	start("default:optimizations=time_shift");
	add_kernel();
	launch(2);
	struct profile *profile = finish();
	check_ctas(profile, 2, 2);
	CHECK_LE(value_of(profile, "mm/" DEFAULT "/dot@ws.py:9", "cycles"), 4 * 369);
}

static void *launch_many(void *unused)
{
	(void)unused;
	for (int i = 0; i < 100; i++)
		launch(4);
	return NULL;
}

TEST(launches_on_many_threads)
{
	pthread_t threads[4];

	start("default");
	add_kernel();
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, launch_many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	struct profile *profile = finish();
	check_ctas(profile, 4 * 100 * 4, (8 + 6) * 4); /* and 64, 128, ..., 384 */
}

/* As upstream's viewer reads it. */
TEST(a_hatchet_file)
{
	struct out out;
	size_t length;

	start("default");
	add_kernel();
	launch(1);
	struct profile *profile = finish();
	out_init(&out, -1);
	CHECK_DONE(export_hatchet(profile, &out, &err));
	char *text = out_take(&out, &length);
	CHECK(strstr(text, "<warps>"));
	CHECK(strstr(text, "\"cta_cycles\": 1400"));
	free(text);
	out_fini(&out);
}
