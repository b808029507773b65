/*
 * Instrumentation backend with a fake driver: the test writes a kernel's records into the buffers
 * and checks the profile. With $PROTON_HIP_PATH, kernels are for AMD GPUs.
 */
#include "unit/fakes.h"
#include "unit/intra/instrumented.h"
#include "unit/recorded_trace.h"

#include "backend/cuda/cupti_abi.h"
#include "base/array.h"
#include "base/clock.h"
#include "export/export.h"
#include "fake/fake_cupti.h"
#include "model/trace_events.h"

#define FUNCTION 0x1234
#define STREAM 7
#define CTAS 4

static struct {
	void (*hold_events)(bool is_held);
	size_t (*device_bytes)(void);
	void (*limit_device)(size_t bytes);
	void (*set_capture)(uint64_t stream, int status);
	void (*set_record_cost)(double reading, double record);
	uint32_t (*calibrations)(void);
} fake;

static struct instrument_layout layout;
static bool is_amd;
static size_t device_bytes_of_graphs; /* with --no-fork: never freed */

enum code {
	K_START = 1,
	K_END,
	LOAD,
	DOT,
	COPY_START,
	COPY_END
};

static void load_fake(void)
{
	is_amd = getenv("PROTON_HIP_PATH") != NULL;
	void *handle = fake_open(is_amd ? "PROTON_HIP_PATH" : "PROTON_CUDA_PATH");
	fake_find(&fake.hold_events, handle, "fake_hold_events");
	fake_find(&fake.device_bytes, handle, "fake_device_bytes");
	fake_find(&fake.limit_device, handle, "fake_limit_device");
	fake_find(&fake.set_capture, handle, "fake_set_capture");
	fake_find(&fake.set_record_cost, handle, "fake_set_record_cost");
	fake_find(&fake.calibrations, handle, "fake_calibrations");
}

static int start(const char *data, const char *mode)
{
	load_fake();
	return instrumented_start(data, mode);
}

/* "k" around "load" and "dot". */
static void add_kernel_of(uint32_t stride, uint32_t units, uint32_t ring_bytes)
{
	layout = (struct instrument_layout){
		.unit_count = units,
		.warps_per_unit = 1,
		.warp_count = units,
		.ring_bytes = ring_bytes,
		.slack_bytes = 16,
		.cta_stride = stride,
		.is_amd = is_amd,
		.units = {0},
	};
	for (uint32_t i = 0; i < units; i++)
		layout.units[i] = (uint8_t)i;
	layout.cta_bytes = instrumented_cta_bytes(&layout);
	layout_scope(&layout, "k", 1);
	layout_scope(&layout, "load", 4);
	layout_scope(&layout, "dot", 3);
	layout_scope(&layout, "copy", 4);
	layout_code(&layout, 0, INSTRUMENT_START);
	layout_code(&layout, 0, INSTRUMENT_END);
	layout_code(&layout, 1, INSTRUMENT_SCOPE);
	layout_code(&layout, 2, INSTRUMENT_SCOPE);
	layout_code(&layout, 3, INSTRUMENT_EVENT_START);
	layout_code(&layout, 3, INSTRUMENT_EVENT_END);
	instrumented_add(&layout, FUNCTION, "mm");
}

/* Two warps per CTA. */
static void add_kernel(uint32_t stride)
{
	add_kernel_of(stride, 2, 128);
}

/* Global timer values: an AMD GPU counts at 100 MHz. */
static uint64_t to_ticks(uint64_t ns)
{
	return is_amd ? ns / 10 : ns;
}

static void put(uint8_t *ring, uint32_t at, uint64_t clock, enum code code, uint32_t payload)
{
	struct instrument_record record = {(uint32_t)clock, (uint32_t)code << 24 | payload};

	memcpy(ring + at * 8, &record, sizeof(record));
}

/* Two iterations: load 100, dot 300 and 310 cycles; "k" is 1000 of them. 2 GHz from `start_ns`. */
static void write_cta(uint64_t address, uint32_t slot, uint64_t start_ns)
{
	uint8_t *cta = (uint8_t *)(uintptr_t)address + (size_t)slot * layout.cta_bytes;

	for (uint32_t unit = 0; unit < 2; unit++) {
		uint8_t *ring = cta + layout_ring_at(&layout, unit);
		uint64_t clock = 0x1ffffff00 + slot * 77;
		struct instrument_unit_header header = {
			.magic = INSTRUMENT_MAGIC,
			.processor = is_amd ? 7 << 8 | unit : slot + 10, /* waves differ */
			.processor_high = 2,
			.start_ns = to_ticks(start_ns),
			.start_clock = clock,
			.end_ns = to_ticks(start_ns + 20000),
			.end_clock = clock + 40000,
			.count = 6,
			.finalize_cycles = 400,
		};

		memcpy(cta + layout_header_at(&layout, unit), &header, sizeof(header));
		put(ring, 0, clock + 200, K_START, 0);
		put(ring, 1, clock + 300, LOAD, 100);
		put(ring, 2, clock + 400, DOT, 300);
		put(ring, 3, clock + 700, LOAD, 100);
		put(ring, 4, clock + 800, DOT, 310);
		put(ring, 5, clock + 1200, K_END, 0);
	}
}

/* One launch of the kernel on all its CTAs; false if it got no buffer. */
static bool launch(void)
{
	uint64_t address = proton_instrument_buffer((size_t)CTAS * layout_requested(&layout),
						    layout_alignment(&layout), STREAM);

	for (uint32_t slot = 0; address && slot < CTAS / layout.cta_stride; slot++)
		write_cta(address, slot, 1700000000000000000 + slot * 1000);
	proton_instrument_launched(FUNCTION, STREAM);
	return address != 0;
}

static int64_t value_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	if (!value)
		FAIL("no %s at %s", metric, path);
	return value->as.int64;
}

static double double_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	if (!value)
		FAIL("no %s at %s", metric, path);
	return value->as.float64;
}

static const char *text_of(const struct profile *profile, const char *path, const char *metric)
{
	const struct profile_value *value = rec_value(profile, path, metric);

	if (!value)
		FAIL("no %s at %s", metric, path);
	return profile_text(profile, value->as.string);
}

static struct profile *finish(void)
{
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	CHECK_U64(fake.device_bytes(), device_bytes_of_graphs);
	layout_fini(&layout);
	return rec_load("a.proton");
}

TEST(a_tree_of_scopes)
{
	char summary[512];

	start("tree", "");
	add_kernel(1);
	uint64_t scope = proton_scope_enter("step");
	CHECK(launch());
	CHECK(launch());
	proton_scope_exit(scope, NULL);
	struct profile *profile = finish();
	proton_last_summary(summary, sizeof(summary));
	CHECK_HAS(summary, "recorded 2 instrumented launches in ");
	CHECK_HAS(summary, "; view it with: proton-viewer ");
	/* 2 launches x 4 CTAs x 2 warps */
	CHECK_EQ(value_of(profile, "step/mm/k", "cycles"), 16 * 1000);
	CHECK_EQ(value_of(profile, "step/mm/k/load", "cycles"), 16 * 200);
	CHECK_EQ(value_of(profile, "step/mm/k/dot", "cycles"), 16 * 610);
	CHECK_EQ(value_of(profile, "step/mm/k/dot", "executions"), 32);
	CHECK_EQ(value_of(profile, "step/mm/k/dot", "min_cycles"), 300);
	CHECK_EQ(value_of(profile, "step/mm/k/dot", "max_cycles"), 310);
	CHECK_LE(300, value_of(profile, "step/mm/k/dot", "p99_cycles"));
	CHECK_NEAR(double_of(profile, "step/mm/k/dot", "mean_cycles"), 305, 1e-9);
	CHECK_NEAR(double_of(profile, "step/mm/k/dot", "executions_per_warp"), 2, 1e-9);
	CHECK_NEAR(double_of(profile, "step/mm/k", "normalized_cycles"), 2000, 1e-9);
	CHECK_STR(text_of(profile, "step/mm/k/dot", "device_id"), "0");
	CHECK_STR(text_of(profile, "step/mm/k", "device_type"), is_amd ? "HIP" : "CUDA");
	CHECK(!rec_value(profile, "step/mm", "device_id"));
	CHECK_U64(profile->device_count, 1);
	CHECK_STR(profile_text(profile, profile->devices[0].arch), is_amd ? "gfx942" : "90");
}

TEST(a_compilers_warning_is_at_the_kernel)
{
	start("tree", "");
	add_kernel(1);
	layout.warning = strdup("its scopes cost 1 of 8 CTAs per multiprocessor");
	instrumented_add(&layout, FUNCTION, "mm");
	CHECK(launch());
	CHECK(launch());
	struct profile *profile = finish();
	CHECK_STR(text_of(profile, "mm", "scopes_warning"),
		  "its scopes cost 1 of 8 CTAs per multiprocessor");
	CHECK(!rec_value(profile, "mm/k", "scopes_warning"));
}

TEST(session_without_scopes_prints_how_to_add_them)
{
	static const char printed[] =
		"no kernel with scopes was launched; add scopes with triton_proton";
	char summary[512];

	start("tree", "");
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	proton_last_summary(summary, sizeof(summary));
	CHECK_HAS(summary, "nothing was recorded: ");
	CHECK_HAS(summary, printed);
	start("tree", "");
	proton_scope_exit(proton_scope_enter("step"), NULL);
	rec_finalize(PROTON_ALL_SESSIONS, NULL);
	proton_last_summary(summary, sizeof(summary));
	CHECK_HAS(summary, "recorded 0 kernel launches in 1 context, ");
	CHECK_HAS(summary, printed);
}

/* str() of a mode in Python has every key. */
TEST(a_mode_with_every_key)
{
	start("tree", "default:metric_type=cycle:sampling_strategy=selective:sampling_options=0,1:"
		      "granularity=warp:buffer_strategy=circular:buffer_type=shared:"
		      "buffer_size=128:optimizations=clock32,sched_stores:auto=:cta=1:launches=8");
	add_kernel(1);
	CHECK(launch());
	CHECK_EQ(value_of(finish(), "mm/k", "cycles"), 8 * 1000);
}

/* By the sampled warps: of every second CTA. */
TEST(strides_normalize_by_sampled_warps)
{
	start("tree", "default:cta=2");
	add_kernel(2);
	CHECK(launch());
	struct profile *profile = finish();
	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 4 * 1000);
	CHECK_NEAR(double_of(profile, "mm/k", "normalized_cycles"), 1000, 1e-9);
}

TEST(a_kernel_named_by_a_hook)
{
	struct proton_context where;

	start("tree", "");
	add_kernel(1);
	proton_op_enter(proton_frame("named", 5), &where);
	CHECK(launch());
	proton_op_exit();
	CHECK_EQ(value_of(finish(), "named/k", "cycles"), 8 * 1000);
}

/* A launch does not wait for the pool. */
TEST(launch_without_a_buffer_is_not_sampled)
{
	int session = start("tree", "");

	rec_begin_saying();
	add_kernel(1);
	fake.limit_device(100 << 10); /* one buffer of the minimum size */
	fake.hold_events(true);
	CHECK(launch());
	CHECK(!launch());
	CHECK(!launch());
	fake.hold_events(false);
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_OK(proton_activate(session, NULL), (struct proton_error){0});
	fake.limit_device(0);
	CHECK(launch()); /* returned by now */
	CHECK_U64(rec_counter(session, "launches of instrumented kernels not sampled"), 2);
	CHECK_EQ(rec_printed("proton: mm: 2 launches were not sampled because the record buffer"),
		 1);
	CHECK_EQ(value_of(finish(), "mm/k", "cycles"), 2 * 8 * 1000);
}

/* The budget's stride is the kernel's, not the session's: 4096 CTAs of 32 warps. */
TEST(launches_of_large_grids_fit_into_the_pool)
{
	uint64_t address;

	start("tree", "");
	add_kernel_of(16, 32, 4096);
	fake.hold_events(true);
	for (int i = 0; i < 8; i++) {
		size_t bytes = (size_t)4096 * layout_requested(&layout);

		address = proton_instrument_buffer(bytes, layout_alignment(&layout), STREAM);
		CHECK(address);
		CHECK(bytes < (size_t)40 << 20);
		proton_instrument_launched(FUNCTION, STREAM);
	}
	fake.hold_events(false);
	finish();
}

/* Grids smaller than the stride, or not a multiple of it: the last CTA has space too. */
TEST(the_last_ctas_of_a_stride_have_space)
{
	static const uint32_t grids[] = {1, 2, 15, 16, 17, 4095};

	start("tree", "");
	add_kernel_of(16, 2, 128);
	for (size_t i = 0; i < ARRAY_LENGTH(grids); i++) {
		uint32_t sampled = (grids[i] + 15) / 16;
		size_t bytes = (size_t)grids[i] * layout_requested(&layout);
		uint64_t address =
			proton_instrument_buffer(bytes, layout_alignment(&layout), STREAM);

		CHECK(bytes + layout_alignment(&layout) >= (size_t)sampled * layout.cta_bytes);
		for (uint32_t slot = 0; slot < sampled; slot++)
			write_cta(address, slot, 1700000000000000000);
		proton_instrument_launched(FUNCTION, STREAM);
	}
	CHECK_EQ(value_of(finish(), "mm/k", "cycles"), (4 + 2 + 256) * 2 * 1000);
}

/* A launch that failed after its buffer was taken, and a kernel that was not registered. */
TEST(buffers_of_failed_and_unknown_launches)
{
	start("tree", "");
	add_kernel(1);
	CHECK(proton_instrument_buffer(1000, 128, STREAM) != 0);
	CHECK(proton_instrument_buffer(1000, 128, STREAM) != 0);
	proton_instrument_launched(99, STREAM);
	proton_instrument_launched(FUNCTION, STREAM); /* of a kernel without scopes */
	CHECK(launch());
	CHECK_EQ(value_of(finish(), "mm/k", "cycles"), 8 * 1000);
}

TEST(nothing_without_a_session)
{
	load_fake();
	add_kernel(1);
	CHECK_U64(proton_instrument_buffer(1000, 128, STREAM), 0);
	proton_instrument_launched(FUNCTION, STREAM);
	layout_fini(&layout);
}

/* The records of the last replay count as one sample. */
TEST(graphs)
{
	int session = start("tree", "");

	add_kernel(1);
	fake.set_capture(STREAM, 1);
	uint64_t address = proton_instrument_buffer((size_t)CTAS * layout.cta_bytes, 128, STREAM);
	CHECK(address != 0);
	proton_instrument_launched(FUNCTION, STREAM);
	fake.set_capture(0, 0);
	for (int replay = 0; replay < 3; replay++)
		for (uint32_t slot = 0; slot < CTAS; slot++)
			write_cta(address, slot, 1700000000000000000);
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_OK(proton_activate(session, NULL), (struct proton_error){0});
	write_cta(address, 0, 1700000000000000000);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
	layout_fini(&layout);
	device_bytes_of_graphs = fake.device_bytes();
	CHECK_EQ(value_of(rec_load("a.proton"), "mm/k", "cycles"), 8 * 1000 + 2 * 1000);
}

static void *launch_many(void *unused)
{
	(void)unused;
	for (int i = 0; i < 200; i++)
		launch();
	return NULL;
}

TEST(launches_on_many_threads)
{
	pthread_t threads[4];
	int session = start("tree", "");

	add_kernel(1);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, launch_many, NULL);
	for (int i = 0; i < 20; i++)
		proton_deactivate(session, true, NULL), proton_activate(session, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	CHECK(launch()); /* earlier ones may all have been in a pause */
	CHECK_EQ(value_of(finish(), "mm/k", "cycles") % 8000, 0);
}

/* Each warp's slices, by the host clock, and no more launches than requested. */
TEST(timeline)
{
	uint64_t sections = 0;
	uint64_t units = 0;
	int session = start("trace", "default:launches=2");
	uint64_t before_ns = clock_real_ns();

	add_kernel(1);
	for (int i = 0; i < 5; i++)
		CHECK(launch());
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_U64(rec_counter(session, "launches of instrumented kernels not sampled"), 3);
	struct profile *profile = finish();
	CHECK(profile->trace);
	for (uint64_t i = 1; i < profile->trace->event_count; i++) {
		const struct row_event *event = trace_event(profile->trace, i);

		if (!event)
			continue;
		if (event->kind == EVENT_UNIT) {
			units++;
			CHECK_U64(event->end_ns - event->start_ns, 20000);
			CHECK_U64(event->flags, 2000);
			CHECK_U64(event->detail, 200);
		} else if (event->kind == EVENT_SECTION) {
			sections++;
			/* 2 GHz */
			CHECK_LE(event->end_ns - event->start_ns, event->detail / 2 + 1);
			CHECK_LE(event->detail / 2, event->end_ns - event->start_ns + 1);
		}
		/* Whatever the global timer is: between the launch and now. */
		CHECK(event->start_ns + 1000000000 > before_ns);
		CHECK(event->start_ns < clock_real_ns());
	}
	CHECK_U64(units, 2 * CTAS * 2);
	CHECK_U64(sections, 2 * CTAS * 2 * 5);
	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 5 * 8 * 1000); /* all are in the tree */
}

/* With a session that has activity records: warps are inside their kernel's slice. */
TEST(warps_are_inside_their_kernels_slice)
{
	const uint64_t begin_ns = clock_monotonic_ns() + 1000000;
	uint32_t (*launch_seen)(const struct fake_launch *);

	load_fake();
	start("trace", "");
	add_kernel(1);
	fake_find(&launch_seen,
		  fake_open(is_amd ? "PROTON_ROCPROFILER_SDK_PATH" : "PROTON_CUPTI_PATH"),
		  "fake_launch");
	REC_START(.name = rec_path("b"), .data = "trace",
		  .backend = is_amd ? "rocprofiler" : "cupti");
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t address =
			proton_instrument_buffer((size_t)CTAS * layout.cta_bytes, 128, STREAM);

		/* The warps run for 23 us, at an unknown time. */
		for (uint32_t slot = 0; slot < CTAS; slot++)
			write_cta(address, slot, 1700000000000000000 + slot * 1000 + i * 40000);
		launch_seen(&(struct fake_launch){
			.call = CUPTI_CALL_LAUNCH_KERNEL,
			.name = i == 1 ? "other" : "mm",
			.context = &fake,
			.records = 1,
			.start_ns = begin_ns + i * 100000,
			.end_ns = begin_ns + i * 100000 + 25000,
		});
		proton_instrument_launched(FUNCTION, STREAM);
	}
	struct profile *profile = finish();
	for (int i = 0; i < 2; i++) {
		/* the fake library delivers its records in reverse */
		const struct row_event *kernel =
			&profile->trace->events[find_event(profile, EVENT_KERNEL, "mm", 1 - i)];
		int number = i ? 2 * 2 * CTAS : 0; /* launches of another kernel are unaffected */
		const struct row_event *first =
			&profile->trace->events[find_event(profile, EVENT_UNIT, "mm", number)];
		const struct row_event *last = &profile->trace->events[find_event(
			profile, EVENT_UNIT, "mm", number + 2 * CTAS - 1)];
		const struct row_event *scope =
			&profile->trace->events[find_event(profile, EVENT_SECTION, "mm/k", number)];

		CHECK_U64(first->start_ns - kernel->start_ns, 1000);
		CHECK_U64(kernel->end_ns - last->end_ns, 1000);
		CHECK_U64(scope->start_ns - first->start_ns, 100); /* 200 cycles at 2 GHz */
	}
}

static uint32_t occurrences(const char *text, const char *part)
{
	uint32_t count = 0;

	for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
		count++;
	return count;
}

/* Launches of one CTA on one SM share its tracks; names and arguments are upstream's. */
/* One warp with half a million records. */
static void launch_large(void)
{
	const uint32_t count = 500000;
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.start_ns = to_ticks(1000000),
		.start_clock = 1000,
		.end_ns = to_ticks(1000000 + count * 10),
		.end_clock = 1000 + count * 20,
		.count = count,
	};
	uint64_t address = proton_instrument_buffer(layout.cta_bytes, 128, STREAM);
	uint8_t *cta = (uint8_t *)(uintptr_t)address;

	CHECK(cta);
	memcpy(cta, &header, sizeof(header));
	for (uint32_t i = 0; i < count; i++)
		put(cta + layout_ring_at(&layout, 0), i, 1000 + i * 20, LOAD, 10);
	proton_instrument_launched(FUNCTION, STREAM);
}

/* Unless the mode sets a number, a trace limits the launches. */
TEST(timeline_of_large_launches)
{
	uint64_t sections = 0;
	int session = start("trace", "");

	add_kernel_of(1, 1, 4 << 20);
	for (int i = 0; i < 3; i++)
		launch_large();
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_U64(rec_counter(session, "launches of instrumented kernels not sampled"), 2);
	struct profile *profile = finish();
	CHECK(profile->trace);
	for (uint64_t i = 1; i < profile->trace->event_count; i++) {
		const struct row_event *event = trace_event(profile->trace, i);

		sections += event && event->kind == EVENT_SECTION;
	}
	CHECK_U64(sections, 500000);
	CHECK_EQ(value_of(profile, "mm/load", "executions"), 3 * 500000);
}

TEST(timeline_as_chrome_trace)
{
	struct out out;
	size_t length;

	start("trace", "default:launches=3");
	add_kernel(1);
	for (int i = 0; i < 3; i++)
		CHECK(launch());
	struct profile *profile = finish();
	out_init(&out, -1);
	CHECK_DONE(export_chrome_trace(profile, &out, &err));
	char *text = out_take(&out, &length);
	/* Each warp of each launch: "k", two "load" and one each of two others. */
	CHECK_U64(occurrences(text, "{\"ph\":"), 3 * CTAS * 2 * 5);
	CHECK_U64(occurrences(text, is_amd ? "\"pid\":\"mm XCC2 SE0 CU7 CTA2\""
					   : "\"pid\":\"mm Core12 CTA2\""),
		  3 * 2 * 5);
	CHECK_U64(occurrences(text, "\"tid\":\"warp 1 (line 0)\""), 3 * CTAS * 5);
	CHECK_U64(occurrences(text, "\"name\":\"load\""), 3 * CTAS * 2 * 2);
	CHECK_U64(occurrences(text, "\"dur\":0.500,\"cat\":\"mm\""), 3 * CTAS * 2);
	CHECK_U64(occurrences(text, "\"Finalization Time (ns)\":200,\"Frequency (MHz)\":2000"),
		  3 * CTAS * 2 * 5);
	CHECK_U64(occurrences(text, "\"call_stack\":[\"ROOT\",\"mm\"]"), 3 * CTAS * 2 * 5);
	free(text);
	out_fini(&out);
	out_init(&out, -1);
	CHECK_DONE(export_perfetto(profile, &out, &err));
	CHECK(out.length > 1000);
	out_fini(&out);
}

/* A unit with `count` records that ran for 40000 cycles of 2 GHz by its own timer. */
static uint8_t *write_unit(uint8_t *cta, uint32_t unit, uint64_t start_ns, uint64_t clock,
			   uint32_t count)
{
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.processor = 10,
		.start_ns = to_ticks(start_ns),
		.start_clock = clock,
		.end_ns = to_ticks(start_ns + 20000),
		.end_clock = clock + 40000,
		.count = count,
	};

	memcpy(cta + layout_header_at(&layout, unit), &header, sizeof(header));
	return cta + layout_ring_at(&layout, unit);
}

/*
 * Warp 0 starts two copies and sees the end of one, warp 1 that of the other: while it loads, by
 * their shared clock. The global timer advanced between their starts.
 */
TEST(timeline_of_async_events)
{
	const struct row_event *copies[2] = {NULL};
	const struct row_event *load = NULL;
	uint32_t units = 0;
	uint32_t count = 0;

	start("trace", "");
	add_kernel(1);
	uint64_t address = proton_instrument_buffer(layout.cta_bytes, 128, STREAM);
	uint8_t *ring = write_unit((uint8_t *)(uintptr_t)address, 0, 1000000, 5000, 3);
	put(ring, 0, 6000, COPY_START, 0);
	put(ring, 1, 6100, COPY_END, 0);
	put(ring, 2, 7000, COPY_START, 0);
	ring = write_unit((uint8_t *)(uintptr_t)address, 1, 1001024, 5010, 2);
	put(ring, 0, 7400, LOAD, 400);
	put(ring, 1, 7600, COPY_END, 0);
	proton_instrument_launched(FUNCTION, STREAM);
	struct profile *profile = finish();
	CHECK(profile->trace);
	for (uint64_t i = 1; i < profile->trace->event_count; i++) {
		const struct row_event *event = trace_event(profile->trace, i);

		if (event && event->kind == EVENT_UNIT)
			CHECK_U64(profile->trace->lanes[event->lane].number, units++);
		if (!event || event->kind != EVENT_SECTION)
			continue;
		if (!(event->flags & EVENT_ASYNC)) {
			load = event;
		} else {
			CHECK_LE(count, 1);
			copies[count++] = event;
		}
	}
	CHECK(load && count == 2 && units == 2);
	CHECK_U64(copies[0]->link, 0);
	CHECK_U64(copies[0]->detail, 100);
	CHECK_U64(copies[1]->detail, 600);
	CHECK_U64(copies[1]->link, load->lane + 1);
	CHECK_U64(profile->trace->lanes[load->lane].number, 1);
	CHECK_U64(profile->trace->lanes[copies[1]->lane].number, 1 << 16);
	CHECK_U64(copies[1]->end_ns - copies[1]->start_ns, 300);
	CHECK_U64(load->start_ns - copies[1]->start_ns, 200);
	CHECK_EQ(value_of(profile, "mm/copy", "cycles"), 700);
}

/* The metrics of one launch with `mode`. */
static struct profile *run_once(const char *mode)
{
	start("tree", mode);
	add_kernel(1);
	CHECK(launch());
	return finish();
}

/* Inside "k" are four adjacent scopes; the first is alone before it starts. */
TEST(time_shift_subtracts_measured_overhead)
{
	load_fake();
	if (is_amd)
		SKIP("measured on NVIDIA GPUs only");
	fake.set_record_cost(3, 20);
	struct profile *profile = run_once("default:optimizations=time_shift");
	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 8 * (1000 - 6 * 3 - 4 * 20));
	CHECK_EQ(value_of(profile, "mm/k/load", "cycles"), 8 * (100 - 3 + 100 - 23));
	CHECK_EQ(value_of(profile, "mm/k/dot", "cycles"), 8 * (300 - 23 + 310 - 23));
	CHECK_U64(fake.calibrations(), 32);
	fake.set_record_cost(1, 1);
	profile = run_once("default:optimizations=time_shift");
	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 8 * (1000 - 6 * 3 - 4 * 20));
	CHECK_U64(fake.calibrations(), 32); /* once per process */
}

TEST(calibration_runs_only_with_time_shift)
{
	struct profile *profile = run_once("");

	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 8 * 1000);
	setenv("PROTON_INSTRUMENT_COST", "1.5,12.5", 1);
	profile = run_once("default:optimizations=time_shift");
	unsetenv("PROTON_INSTRUMENT_COST");
	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 8 * (1000 - 9 - 38));
	CHECK_U64(fake.calibrations(), 0);
}

TEST(unknown_overhead_is_not_subtracted)
{
	struct profile *profile;

	for (int i = 0; i < 2; i++) {
		setenv("FAKE_CUDA_FAIL", "cuModuleLoadData=222", 1);
		profile = run_once("default:optimizations=time_shift");
		unsetenv("FAKE_CUDA_FAIL");
		CHECK_EQ(value_of(profile, "mm/k", "cycles"), 8 * 1000);
	}
	CHECK_U64(fake.calibrations(), 0);
	if (is_amd)
		return;
	/* The next run tries again: the device may only have been busy. */
	fake.set_record_cost(3, 20);
	profile = run_once("default:optimizations=time_shift");
	CHECK_EQ(value_of(profile, "mm/k", "cycles"), 8 * (1000 - 6 * 3 - 4 * 20));
	CHECK_U64(fake.calibrations(), 32);
}

TEST(invalid_overhead_is_rejected)
{
	static const char *const wrong[] = {"",     "1",   "1,",    ",1",  "1,2,",     "1,2 ",
					    "-1,2", "1;2", "1e3,2", "a,b", "1,2000001"};
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.backend = "instrumentation",
		.mode = "default:optimizations=time_shift",
	};
	struct proton_error err = {0};
	int session;

	load_fake();
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("PROTON_INSTRUMENT_COST", wrong[i], 1);
		CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_INVALID);
		CHECK_HAS(err.text,
			  "PROTON_INSTRUMENT_COST must be two comma-separated cycle counts");
	}
	unsetenv("PROTON_INSTRUMENT_COST");
}

TEST(bad_modes_and_layouts)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.backend = "instrumentation",
		.mode = "default:nonsense=1",
	};
	struct proton_error err = {0};
	int session;

	load_fake();
	CHECK_EQ(proton_start(&options, &session, &err), PROTON_E_INVALID);
	CHECK_EQ(proton_instrument_kernel(FUNCTION, "mm", "nonsense", &err), PROTON_E_FORMAT);
	CHECK_EQ(proton_instrument_kernel(0, "mm", "nonsense", &err), PROTON_E_INVALID);
}
