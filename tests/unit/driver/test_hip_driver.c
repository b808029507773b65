/* Instrumentation backend with a fake libamdhip64: where HIP differs from CUDA. */
#include "unit/amd/hip_controls.h"
#include "unit/recorded.h"

#include "backend/intra/trace_builder.h"
#include "driver/amd_gpus.h"
#include "driver/driver.h"
#include "driver/hip_abi.h"
#include "export/export.h"
#include "fake/gpus.h"
#include "format/rows.h"
#include "intra/layout.h"
#include "record/store/devices.h"

#define FUNCTION 0x1234
#define STREAM 7

static const char *const entries[] = {
#define ENTRY_NAME(name, arguments) #name,
	HIP_FUNCTIONS(ENTRY_NAME)
#undef ENTRY_NAME
};
#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

/* A libamdhip64 that lacks a function. */
static const char *missing = "";
void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
	return strcmp(name, missing) == 0 ? NULL : __real_dlsym(handle, name);
}

/* CUDA events of buffers that are dropped because the device may still write to them. */
const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
	return "leak:create_event\n";
}

static const char *mode;

static int try_start(struct proton_error *err)
{
	struct proton_session_options options = {
		.size = sizeof(options),
		.name = rec_path("a"),
		.backend = "instrumentation",
		.data = "trace",
		.mode = mode,
		.format = "proton",
		.flags = PROTON_SESSION_QUIET,
	};
	int session = -1;
	int status = proton_start(&options, &session, err);

	return status == PROTON_OK ? session : status;
}

static int start(void)
{
	struct proton_error err = {0};

	find_hip();
	int session = try_start(&err);
	if (session < 0)
		FAIL("start: %s", err.text);
	return session;
}

/* One wave per CTA, a ring buffer of 16 records. */
static const char layout[] =
	"proton-instrument 1\nvendor amd\nwarps 1\nwarps_per_unit 1\nring 128\n"
	"slack 16\ncta 256\ncta_stride 1\nunits 0\nscope k\ncode 0 0\n";

static int add_kernel(struct proton_error *err)
{
	return proton_instrument_kernel(FUNCTION, "mm", layout, err);
}

/* A session with the kernel. */
static int begin(void)
{
	int session = start();

	CHECK_DONE(add_kernel(&err));
	return session;
}

static uint64_t timer_khz = 100000;

/* Records of a wave: "k" of 1000 cycles at 2 GHz, in 20 us of the timer. */
static void write_records(uint64_t address)
{
	uint8_t *cta = (uint8_t *)(uintptr_t)address;
	struct instrument_unit_header header = {
		.magic = INSTRUMENT_MAGIC,
		.count = 1,
		.start_ns = 1000000,
		.start_clock = 5000,
		.end_ns = 1000000 + timer_khz / 50,
		.end_clock = 45000,
	};
	struct instrument_record record = {6000, 1u << 24 | 1000};

	memcpy(cta, &header, sizeof(header));
	memcpy(cta + sizeof(header), &record, sizeof(record));
}

/* False if there was no buffer. */
static bool launch(void)
{
	uint64_t address = proton_instrument_buffer(256, 128, STREAM);

	if (address)
		write_records(address);
	proton_instrument_launched(FUNCTION, STREAM);
	return address != 0;
}

static void flush(int session)
{
	CHECK_OK(proton_deactivate(session, true, NULL), (struct proton_error){0});
	CHECK_OK(proton_activate(session, NULL), (struct proton_error){0});
}

/* A launch into the stream's capture: the buffer of its replays. */
static uint64_t capture(void)
{
	hip_fake.set_capture(STREAM, 1);
	uint64_t address = proton_instrument_buffer(256, 128, STREAM);
	CHECK(address != 0);
	proton_instrument_launched(FUNCTION, STREAM);
	return address;
}

static int64_t cycles(const struct profile *profile)
{
	const struct profile_value *value = rec_value(profile, "mm/k", "cycles");

	return value ? value->as.int64 : 0;
}

/* Every entry is set, whatever is added to CUDA's table. */
TEST(every_function_of_the_table)
{
	static const struct {
		const char *name;
		size_t offset;
		unsigned users;
	} fields[] = {
#define X(name, version, arguments, users) {#name, offsetof(struct driver, name), users},
#include "driver/cuda_functions.def"
#undef X
	};

	find_hip();
	CHECK(!driver_is_bound());
	CHECK_DONE(driver_bind(true, &err));
	CHECK(driver_is_bound());
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		void *function;

		memcpy(&function, (char *)&driver + fields[i].offset, sizeof(function));
		if (!function && fields[i].users & FOR_INTRA)
			FAIL("HIP has no %s", fields[i].name);
	}
}

TEST(a_missing_function_is_named)
{
	struct proton_error err = {0};

	find_hip();
	for (size_t i = 0; i < ENTRIES; i++) {
		missing = entries[i];
		CHECK_EQ(add_kernel(&err), PROTON_E_UNSUPPORTED);
		CHECK_HAS(err.text, entries[i]);
		CHECK_HAS(err.text, "ROCm 6.0");
	}
	missing = "";
	CHECK_OK(add_kernel(&err), err);
}

TEST(no_driver_at_all)
{
	struct proton_error err = {0};

	setenv("PROTON_HIP_PATH", "/nonexistent/libamdhip64.so", 1);
	setenv("PROTON_CUDA_PATH", "/nonexistent/libcuda.so.1", 1);
	CHECK_EQ(try_start(&err), PROTON_E_NOLIB);
	CHECK_HAS(err.text, "libcuda.so.1");
	CHECK_HAS(err.text, "libamdhip64.so");
	CHECK_EQ(add_kernel(&err), PROTON_E_NOLIB);
	CHECK_HAS(err.text, "AMD kernels require HIP: cannot find libamdhip64.so");
}

/* A process can use only one of the two vendors. */
TEST(a_kernel_of_the_other_vendor)
{
	struct proton_error err = {0};
	char nvidia[sizeof(layout) + 8];

	find_hip();
	snprintf(nvidia, sizeof(nvidia), "proton-instrument 1\nvendor nvidia%s",
		 strstr(layout, "\nwarps"));
	CHECK_OK(add_kernel(&err), err);
	CHECK_EQ(proton_instrument_kernel(99, "cu", nvidia, &err), PROTON_E_UNSUPPORTED);
	CHECK_HAS(err.text, "NVIDIA");
}

TEST(the_device_is_described)
{
	begin();
	CHECK_EQ(hip_fake.set_device(1), 0);
	CHECK(launch());
	struct profile *profile = rec_finish();
	CHECK_EQ(cycles(profile), 1000);
	CHECK_U64(profile->device_count, 1);
	const struct row_device *device = &profile->devices[0];
	CHECK_STR(profile_text(profile, device->type), "HIP");
	CHECK_STR(profile_text(profile, device->arch), "gfx90a");
	CHECK_STR(profile_text(profile, device->name), "Fake Instinct 1");
	CHECK_U64(device->id, 1);
	CHECK_U64(device->clock_khz, 1700000);
	CHECK_U64(device->memory_clock_khz, 1600000);
	CHECK_U64(device->bus_width_bits, 4096);
	CHECK_U64(device->processors, 110);
}

/* For backends that only record: the driver of instrumented kernels stays free. */
TEST(devices_are_described_by_their_number_without_instrumentation)
{
	setenv("FAKE_HIP_GPUS", "RX 7900 XTX,MI355X,MI250X,MI300X", 1);
	find_hip();
	CHECK_DONE(driver_load_hip(&err));
	CHECK(!driver_is_bound());
	CHECK_EQ(amd_gpus_hip_count(), 4);
	hip_fake.fail("hipGetDeviceCount", 1, 1, 100);
	CHECK_EQ(amd_gpus_hip_count(), -1);
	for (int i = 3; i >= 0; i--) {
		const struct fake_gpu *gpu = fake_hip_gpu(i);
		uint32_t id = gpu_device_of_hip((uint32_t)i);
		const struct device *device = devices_get(id);
		size_t length;

		CHECK(gpu && device);
		length = strcspn(gpu->gcn_arch, ":");
		CHECK_U64(gpu_device_of_hip((uint32_t)i), id);
		CHECK_STR(device->type, "HIP");
		CHECK_EQ(strlen(device->arch), length);
		CHECK_MEM(device->arch, gpu->gcn_arch, length);
		CHECK_U64(device->id, i);
		CHECK_U64(device->processors, gpu->processors);
		CHECK_U64(device->clock_khz, gpu->clock_khz);
		CHECK_U64(device->memory_clock_khz, gpu->memory_clock_khz);
		CHECK_U64(device->bus_width_bits, gpu->bus_width_bits);
	}
}

/* There is no calibration kernel: a user must set the overhead. */
TEST(overhead_set_by_the_user)
{
	mode = "default:optimizations=time_shift";
	for (int is_reported = 0; is_reported < 2; is_reported++) {
		if (is_reported)
			setenv("PROTON_INSTRUMENT_COST", "40,100", 1);
		begin();
		CHECK(launch());
		struct profile *profile = rec_finish();
		CHECK_EQ(cycles(profile), is_reported ? 960 : 1000);
	}
	unsetenv("PROTON_INSTRUMENT_COST");
	mode = NULL;
}

/* hipEventQuery() invalidates the capture of a stream on which the event was recorded before. */
TEST(capture_stays_valid)
{
	int session = begin();

	hip_fake.hold_events(true);
	CHECK(launch());
	uint64_t address = capture();
	hip_fake.hold_events(false);
	flush(session);
	CHECK_U64(hip_fake.invalidated_captures(), 0);
	hip_fake.set_capture(0, 0);
	write_records(address);
	CHECK_EQ(cycles(rec_finish()), 2000);
}

static char *timeline(const struct profile *profile)
{
	struct out out;
	size_t length;

	out_init(&out, -1);
	CHECK_DONE(export_chrome_trace(profile, &out, &err));
	char *text = out_take(&out, &length);
	out_fini(&out);
	return text;
}

/* A rate that the device reports, and the one of gfx9 if it reports none. */
TEST(the_rate_of_the_timer)
{
	static const int rates[] = {100000, 25000, 0};

	for (int i = 0; i < 3; i++) {
		struct profile *profile;
		char *text;

		timer_khz = rates[i] ? (uint64_t)rates[i] : 100000;
		begin();
		hip_fake.set_wall_clock(rates[i]);
		CHECK(launch());
		profile = rec_finish();
		text = timeline(profile);
		CHECK_HAS(text, "\"dur\":0.500,");
		CHECK_HAS(text, "\"Frequency (MHz)\":2000,");
		free(text);
	}
}

/* HW_ID of wave 3 on SIMD 1, with any pipe and queue. */
#define WAVE (3u | 1u << 4 | 2u << 6 | 5u << 16 | 1u << 24)

TEST(where_waves_ran)
{
	CHECK_U64(trace_builder_amd_processor("gfx942", WAVE | 7u << 8 | 2u << 13, 5),
		  LANE_AMD | LANE_AMD_DIES | 7 | 2u << 16 | 5u << 24);
	/* Bit 15 is the third bit of the engine number, on chips with eight engines. */
	CHECK_U64(trace_builder_amd_processor("gfx942", 1u << 15 | 7u << 8, 0),
		  LANE_AMD | LANE_AMD_DIES | 7);
	CHECK_U64(trace_builder_amd_processor("gfx90a", WAVE | 7u << 13 | 15u << 8, 0xdead),
		  LANE_AMD | 15 | 7u << 16);
	CHECK_U64(trace_builder_amd_processor("gfx90a", WAVE | 1u << 12, 0), LANE_AMD | 1u << 8);
	CHECK_U64(trace_builder_amd_processor("gfx1201",
					      31u | 3u << 8 | 9u << 10 | 1u << 16 | 6u << 18, 0),
		  LANE_AMD | LANE_AMD_WGP | 9 | 1u << 8 | 6u << 16);
	CHECK_U64(trace_builder_amd_processor("gfx950", WAVE, 15) >> 24 & 15, 15);
}

/* The thread's current device belongs to the program. */
TEST(current_device_is_preserved)
{
	int session = begin();
	int device = -1;

	CHECK_EQ(hip_fake.set_device(1), 0);
	uint64_t address = capture();
	hip_fake.set_capture(0, 0);
	write_records(address);
	CHECK_EQ(hip_fake.set_device(0), 0);
	flush(session); /* on this thread, for graphs */
	CHECK_EQ(hip_fake.get_device(&device), 0);
	CHECK_EQ(device, 0);
	rec_finalize(PROTON_ALL_SESSIONS, "proton");
}

/*
 * Each entry point fails at each of its calls. The launch may get no buffer and its records may be
 * lost, which is counted, but no error is left to the program, and everything works afterwards.
 */
static void survive(const char *name, uint32_t call)
{
	uint64_t lost;
	int session = begin();

	hip_fake.fail(name, call, 1, 999);
	bool is_sampled = launch();
	CHECK_EQ(hip_fake.last_error(), 0);
	flush(session);
	CHECK_EQ(hip_fake.last_error(), 0);
	hip_fake.fail(name, 0, 0, 0);
	CHECK(launch());
	flush(session);
	lost = rec_counter(session, "lost: undecodable intra-kernel record");
	struct profile *profile = rec_finish();
	CHECK_LE(1000, cycles(profile));
	CHECK(lost != UINT64_MAX);
	CHECK(cycles(profile) == 2000 || !is_sampled || lost > 0);
}

TEST(any_call_may_fail)
{
	for (size_t i = 0; i < ENTRIES; i++)
		for (uint32_t call = 1; call <= 3; call++)
			survive(entries[i], call);
}
