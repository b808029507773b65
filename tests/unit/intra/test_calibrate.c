/* Calibration with a fake driver that also simulates the kernel. */
#include "unit/fakes.h"
#include "unit/tap.h"

#include "backend/intra/record_overhead.h"
#include "driver/driver.h"

#define LIMIT_NS 1000000

static struct {
	void (*hold_events)(bool is_held);
	size_t (*device_bytes)(void);
	void (*set_capture)(uint64_t stream, int status);
	uint32_t (*unsafe_calls)(void);
	void (*set_record_cost)(double reading, double record);
	uint32_t (*calibrations)(void);
} fake;

static void load_fake(void)
{
	void *handle = fake_open("PROTON_CUDA_PATH");

	fake_find(&fake.hold_events, handle, "fake_hold_events");
	fake_find(&fake.device_bytes, handle, "fake_device_bytes");
	fake_find(&fake.set_capture, handle, "fake_set_capture");
	fake_find(&fake.unsafe_calls, handle, "fake_unsafe_calls");
	fake_find(&fake.set_record_cost, handle, "fake_set_record_cost");
	fake_find(&fake.calibrations, handle, "fake_calibrations");
	CHECK_DONE(driver_bind(false, &err));
}

static int measure(struct decode_overhead *cost, struct proton_error *err)
{
	int mode = driver_own_begin();
	bool is_ok = calibrate(LIMIT_NS, cost, err);

	driver_own_end(mode);
	return is_ok ? PROTON_OK : err->status;
}

static void check_cost(double reading, double record)
{
	struct decode_overhead cost = {0};

	fake.set_record_cost(reading, record);
	CHECK_DONE(measure(&cost, &err));
	CHECK_NEAR((double)cost.empty / DECODE_CYCLE, reading, 0.3);
	CHECK_NEAR((double)cost.scope / DECODE_CYCLE, 2 * reading + record, 0.1);
	CHECK_U64(fake.device_bytes(), 0);
}

TEST(overhead_is_measured_to_a_fraction_of_a_cycle)
{
	load_fake();
	check_cost(2, 10);
	check_cost(2.25, 9.5);
	check_cost(13, 0.5);
	check_cost(31, 80);
}

TEST(failed_call_is_reported_and_nothing_leaks)
{
	static const char *const calls[] = {
		"cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate",
		"cuMemAlloc",       "cuMemsetD8Async",     "cuLaunchKernel",
		"cuStreamQuery",    "cuMemcpyDtoHAsync",   "cuStreamSynchronize",
	};
	char wanted[64];

	load_fake();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct decode_overhead cost = {.empty = 7, .scope = 8};
		struct proton_error err = {0};

		snprintf(wanted, sizeof(wanted), "%s=218", calls[i]);
		setenv("FAKE_CUDA_FAIL", wanted, 1);
		CHECK_EQ(measure(&cost, &err), PROTON_E_UNSUPPORTED);
		unsetenv("FAKE_CUDA_FAIL");
		snprintf(wanted, sizeof(wanted), "%s failed (218)", calls[i]);
		CHECK_STR(err.text, wanted);
		CHECK_EQ(cost.empty, 7);
		CHECK_EQ(cost.scope, 8);
		CHECK_U64(fake.device_bytes(), 0);
	}
}

TEST(kernel_that_did_not_run_is_an_error)
{
	struct decode_overhead cost;
	struct proton_error err = {0};

	load_fake();
	fake.set_record_cost(0, 0);
	CHECK_EQ(measure(&cost, &err), PROTON_E_UNSUPPORTED);
	CHECK_STR(err.text, "the calibration kernel returned implausible values");
	fake.set_record_cost(20000, 10);
	CHECK_EQ(measure(&cost, &err), PROTON_E_UNSUPPORTED);
	CHECK_U64(fake.device_bytes(), 0);
}

TEST(calibration_does_not_break_a_capture)
{
	struct decode_overhead cost;

	load_fake();
	fake.set_capture(7, 1);
	CHECK_DONE(measure(&cost, &err));
	CHECK_U64(fake.unsafe_calls(), 0);
	fake.set_capture(0, 0);
}

/* Memory that the device may still write to is kept until the next call. */
TEST(a_busy_device_is_not_waited_for)
{
	struct decode_overhead cost;
	struct proton_error err = {0};

	load_fake();
	fake.hold_events(true);
	CHECK_EQ(measure(&cost, &err), PROTON_E_UNSUPPORTED);
	CHECK_STR(err.text, "the GPU was busy");
	CHECK(fake.device_bytes() > 0);
	CHECK_EQ(measure(&cost, &err), PROTON_E_UNSUPPORTED);
	fake.hold_events(false);
	CHECK_OK(measure(&cost, &err), err);
	CHECK_U64(fake.device_bytes(), 0);
}
