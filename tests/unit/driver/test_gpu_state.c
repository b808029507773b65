/* State of GPUs, sampled from a fake NVML. */
#include "unit/fakes.h"
#include "unit/tap.h"

#include "driver/gpu_state.h"
#include "fake/fake_nvml.h"
#include "record/store/devices.h"

static void (*set)(const char *name, unsigned long long value);
static unsigned (*samples)(void);

/* Device 0 is NVML's, device 1 is not, and device 2 is of another kind. */
static void begin(void)
{
	static const struct device devices[] = {
		{.type = "CUDA", .id = 0, .pci = "0000:4e:00.0"},
		{.type = "CUDA", .id = 1, .pci = "0000:4f:00.0"},
		{.type = "HIP", .id = 0, .pci = "0000:4e:00.0"},
	};
	void *library = fake_open("PROTON_NVML_PATH");

	fake_find(&set, library, "fake_nvml_set");
	fake_find(&samples, library, "fake_nvml_samples");
	for (size_t i = 0; i < 3; i++)
		devices_add(&devices[i]);
	gpu_state_clear();
}

/* The first call is about the energy alone. */
static void sample(void)
{
	gpu_state_sample();
	gpu_state_sample();
}

static char described[1024];

static void add(void *user, const char *key, const char *value)
{
	size_t used = strlen(described);

	CHECK(user == described);
	snprintf(described + used, sizeof(described) - used, "%s=%s\n", key, value);
}

static const char *describe(void)
{
	*described = '\0';
	gpu_state_describe(add, described);
	return described;
}

static void set_busy(unsigned mhz)
{
	set("sm", mhz);
	set("reasons", 0);
}

TEST(samples_are_summed_up_for_each_gpu_of_nvml)
{
	begin();
	set_busy(1980);
	set("memory", 2619);
	set("celsius", 40);
	set("milliwatts", 300500);
	set("processes", 1);
	set("limit", 700000);
	set("millijoules", 5000);
	sample();
	CHECK_EQ(samples(), 1);
	set("sm", 1500);
	set("celsius", 50);
	set("milliwatts", 700000);
	set("millijoules", 12250);
	set("processes", 3);
	set("reasons", NVML_REASON_SOFTWARE_POWER | NVML_REASON_SOFTWARE_THERMAL);
	describe();
	set_busy(1200); /* the reasons stay */
	CHECK_STR(describe(), "gpu0_sm_clock_mhz=1200 1560 1980\n"
			      "gpu0_memory_clock_mhz=2619 2619 2619\n"
			      "gpu0_temperature_c=40 46.6667 50\n"
			      "gpu0_power_w=300.5 566.833 700\n"
			      "gpu0_power_limit_w=700 700 700\n"
			      "gpu0_other_processes=0 1.33333 2\n"
			      "gpu0_throttle_reasons=power cap, thermal\n"
			      "gpu0_energy_j=7.250\n");
}

TEST(a_gpu_is_sampled_once_a_second)
{
	begin();
	set_busy(1000);
	for (int i = 0; i < 100; i++)
		sample();
	CHECK_EQ(samples(), 1);
	describe(); /* the end is sampled at once */
	CHECK_EQ(samples(), 2);
}

TEST(clocks_of_the_first_call_are_of_earlier_work)
{
	begin();
	set_busy(1000);
	set("millijoules", 1000);
	gpu_state_sample();
	CHECK_EQ(samples(), 0);
	set_busy(2000);
	set("millijoules", 4000);
	CHECK_STR(describe(), "gpu0_sm_clock_mhz=2000 2000 2000\ngpu0_throttle_reasons=none\n"
			      "gpu0_energy_j=3.000\n");
}

TEST(idle_samples_count_only_without_busy_ones)
{
	begin();
	set("sm", 345);
	set("reasons", NVML_REASON_IDLE);
	sample();
	CHECK_STR(describe(), "gpu0_sm_clock_mhz=345 345 345\ngpu0_throttle_reasons=idle\n");
	set_busy(1700);
	CHECK_STR(describe(), "gpu0_sm_clock_mhz=1700 1700 1700\ngpu0_throttle_reasons=none\n");
	set("sm", 345);
	set("reasons", NVML_REASON_IDLE);
	CHECK_STR(describe(), "gpu0_sm_clock_mhz=1700 1700 1700\ngpu0_throttle_reasons=none\n");
}

TEST(every_reason_has_a_name)
{
	begin();
	set("reasons", 0x1ff);
	sample();
	CHECK_STR(describe(),
		  "gpu0_throttle_reasons=power cap, power brake, thermal, hardware thermal, "
		  "hardware slowdown, sync boost, application clocks, display clocks, idle\n");
}

TEST(a_backend_that_starts_again_forgets_earlier_samples)
{
	begin();
	set_busy(1000);
	sample();
	gpu_state_clear();
	set_busy(2000);
	CHECK_STR(describe(), "gpu0_sm_clock_mhz=2000 2000 2000\ngpu0_throttle_reasons=none\n");
}

TEST(nothing_is_described_before_nvml_is_loaded_or_without_it)
{
	begin();
	CHECK_STR(describe(), "");
	setenv("FAKE_NVML_BROKEN", "1", 1);
	gpu_state_sample();
	CHECK_STR(describe(), "");
}

TEST(a_missing_library_is_looked_for_once)
{
	begin();
	setenv("PROTON_NVML_PATH", "/nowhere/libnvidia-ml.so.1", 1);
	gpu_state_sample();
	setenv("PROTON_NVML_PATH", "", 1);
	gpu_state_sample();
	CHECK_STR(describe(), "");
	CHECK_EQ(samples(), 0);
}

TEST(a_forked_child_does_not_use_the_nvml_of_its_parent)
{
	int status;

	begin();
	set_busy(1000);
	sample();
	pid_t pid = fork();
	if (pid == 0) {
		gpu_state_forked();
		gpu_state_sample();
		_exit(*describe() != '\0' || samples() != 1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK_HAS(describe(), "gpu0_sm_clock_mhz=1000");
}
