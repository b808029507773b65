/* PM sampling, with the fake libcupti (tests/fake/cupti_pm.c, which says what was measured). */
#include "unit/cuda/cuda_session.h"

#include <math.h>

#include "backend/cuda/cupti_api.h"
#include "backend/cuda/pm_sampling.h"

#define INTERVAL_NS 1000000u
#define SAMPLES_MAX 100000u

static struct pm_sample samples[SAMPLES_MAX];
static size_t count;

static void add(const struct pm_sample *sample, void *user)
{
	CHECK(user == &count);
	CHECK_LT(count, SAMPLES_MAX);
	samples[count++] = *sample;
}

static struct pm_sampling *open_pm(void)
{
	struct pm_sampling *pm = NULL;
	struct proton_error err = {0};

	load_fake();
	CHECK_EQ(pm_sampling_open(0, INTERVAL_NS, &pm, &err), PROTON_OK);
	return pm;
}

/* Reads until there are so many; true if some were lost. */
static bool read_until(struct pm_sampling *pm, size_t wanted)
{
	struct proton_error err = {0};
	bool is_lost = false;

	for (int i = 0; i < 3000 && count < wanted; i++) {
		usleep(10000);
		CHECK_EQ(pm_sampling_read(pm, add, &count, &is_lost, &err), PROTON_OK);
	}
	CHECK_LE(wanted, count);
	return is_lost;
}

static void close_pm(struct pm_sampling *pm)
{
	pm_sampling_close(pm);
	CHECK(fake.pm_is_idle());
}

/* The values that the fake gives for a metric, in even and odd samples. */
static void check_values(enum pm_column column, const char *metric)
{
	bool is_bytes = strstr(metric, "bytes");
	double letters = (double)strlen(metric);
	double even = is_bytes ? letters * 1000 : letters / 2;
	double odd = is_bytes ? even : even + 20;

	for (size_t i = 1; i < count; i++) {
		double value = samples[i].values[column];
		double before = samples[i - 1].values[column];

		CHECK((value == even && before == odd) || (value == odd && before == even));
	}
}

#define PEAK ".avg.pct_of_peak_sustained_elapsed"

TEST(samples_have_the_values_of_each_column_and_follow_each_other)
{
	struct pm_sampling *pm = open_pm();

	CHECK(!read_until(pm, 50));
	check_values(PM_SM, "TPC.TriageCompute.sm__cycles_active" PEAK);
	check_values(PM_TENSOR, "TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime" PEAK);
	check_values(PM_DRAM_READ, "FBSP.TriageCompute.dramc__read_throughput" PEAK);
	check_values(PM_DRAM_WRITE, "FBSP.TriageCompute.dramc__write_throughput" PEAK);
	check_values(PM_ISSUE, "TPC.TriageCompute.sm__inst_executed_realtime" PEAK);
	check_values(PM_WARPS, "TPC.TriageCompute.tpc__warps_active_shader_cs_realtime" PEAK);
	check_values(PM_L2, "LTS.TriageCompute.lts__throughput" PEAK);
	check_values(PM_PCIE_READ, "PCI.TriageCompute.pcie__read_bytes.sum");
	check_values(PM_PCIE_WRITE, "PCI.TriageCompute.pcie__write_bytes.sum");
	check_values(PM_GR, "FE_B.TriageCompute.gr__cycles_active" PEAK);
	CHECK(!pm_sampling_has(pm, PM_NVLINK_READ) && isnan(samples[0].values[PM_NVLINK_READ]));
	for (size_t i = 0; i < count; i++) {
		CHECK_U64(samples[i].end_ns - samples[i].start_ns, INTERVAL_NS);
		CHECK(i == 0 || samples[i].start_ns == samples[i - 1].end_ns);
	}
	close_pm(pm);
}

TEST(a_chip_with_other_names_has_the_columns_that_fit_into_one_pass)
{
	static const enum pm_column left_out[] = {PM_L2,          PM_PCIE_READ,    PM_PCIE_WRITE,
						  PM_NVLINK_READ, PM_NVLINK_WRITE, PM_GR};
	struct pm_sampling *pm;

	setenv("FAKE_PM_CHIP", "GB202", 1);
	setenv("FAKE_PM_ROOM", "6", 1);
	pm = open_pm();
	read_until(pm, 10);
	check_values(PM_SM, "sm__cycles_active" PEAK);
	check_values(PM_DRAM_WRITE, "dram__write_throughput" PEAK);
	check_values(PM_WARPS, "sm__warps_active.avg.pct_of_peak_sustained_active");
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		CHECK(!pm_sampling_has(pm, left_out[i]) && isnan(samples[0].values[left_out[i]]));
	close_pm(pm);
}

TEST(a_full_hardware_buffer_is_reported)
{
	struct pm_sampling *pm;

	setenv("FAKE_PM_HARDWARE", "5", 1);
	pm = open_pm();
	usleep(100000);
	CHECK(read_until(pm, 4));
	close_pm(pm);
}

/* The image of a decoding has room for 2,048. */
TEST(more_samples_than_one_decoding_takes_are_all_read)
{
	struct proton_error err = {0};
	struct pm_sampling *pm = NULL;
	bool is_lost = false;

	setenv("FAKE_PM_HARDWARE", "1000000", 1);
	load_fake();
	/* On a slow machine, reading a sample must take less time than the interval. */
	CHECK_EQ(pm_sampling_open(0, 50000, &pm, &err), PROTON_OK);
	usleep(300000);
	CHECK_EQ(pm_sampling_read(pm, add, &count, &is_lost, &err), PROTON_OK);
	CHECK_LT(5000, count);
	for (size_t i = 1; i < count; i++)
		CHECK_U64(samples[i].start_ns, samples[i - 1].end_ns);
	close_pm(pm);
}

static void check_failure(const char *call, int status)
{
	struct proton_error err = {0};
	struct pm_sampling *pm = NULL;

	fake.fail(call, 1, FAKE_ALWAYS, CUPTI_E_UNKNOWN);
	CHECK_EQ(pm_sampling_open(0, INTERVAL_NS, &pm, &err), status);
	CHECK(!pm && *err.text && fake.pm_is_idle());
	fake.fail(call, 1, 0, 0);
}

TEST(a_call_that_fails_leaves_nothing_open)
{
	load_fake();
	check_failure("cuptiDeviceGetChipName", PROTON_E_IO);
	check_failure("cuptiPmSamplingGetCounterAvailability", PROTON_E_IO);
	/* Without these no metric can be chosen. */
	check_failure("cuptiProfilerHostInitialize", PROTON_E_UNSUPPORTED);
	check_failure("cuptiProfilerHostConfigAddMetrics", PROTON_E_UNSUPPORTED);
	check_failure("cuptiProfilerHostGetConfigImageSize", PROTON_E_UNSUPPORTED);
	check_failure("cuptiProfilerHostGetConfigImage", PROTON_E_UNSUPPORTED);
	check_failure("cuptiProfilerHostGetNumOfPasses", PROTON_E_UNSUPPORTED);
	check_failure("cuptiPmSamplingEnable", PROTON_E_IO);
	check_failure("cuptiPmSamplingSetConfig", PROTON_E_IO);
	check_failure("cuptiPmSamplingGetCounterDataSize", PROTON_E_IO);
	check_failure("cuptiPmSamplingCounterDataImageInitialize", PROTON_E_IO);
	check_failure("cuptiPmSamplingStart", PROTON_E_IO);
}

TEST(reads_that_fail_give_the_call)
{
	static const char *const calls[][2] = {
		{"cuptiPmSamplingDecodeData", "cuptiPmSamplingDecodeData"},
		{"cuptiPmSamplingGetCounterDataInfo", "cuptiProfilerHostEvaluateToGpuValues"},
		{"cuptiPmSamplingCounterDataGetSampleInfo", "cuptiProfilerHostEvaluateToGpuValues"},
		{"cuptiProfilerHostEvaluateToGpuValues", "cuptiProfilerHostEvaluateToGpuValues"},
	};
	struct pm_sampling *pm = open_pm();

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct proton_error err = {0};
		bool is_lost = false;

		usleep(10000);
		fake.fail(calls[i][0], 1, FAKE_ALWAYS, CUPTI_E_UNKNOWN);
		CHECK_EQ(pm_sampling_read(pm, add, &count, &is_lost, &err), PROTON_E_IO);
		CHECK_HAS(err.text, calls[i][1]);
		CHECK(!is_lost);
		fake.fail(calls[i][0], 1, 0, 0);
	}
	count = 0;
	read_until(pm, 5);
	close_pm(pm);
}

/* 10 us and 12 metrics: the decoding returned OUT_OF_MEMORY (H200). */
TEST(samples_that_cannot_be_decoded_are_lost)
{
	struct pm_sampling *pm = open_pm();
	struct proton_error err = {0};
	bool is_lost = false;

	fake.fail("cuptiPmSamplingDecodeData", 1, 1, CUPTI_E_OUT_OF_MEMORY);
	CHECK_EQ(pm_sampling_read(pm, add, &count, &is_lost, &err), PROTON_E_IO);
	CHECK(is_lost);
	close_pm(pm);
}

TEST(a_gpu_is_sampled_once_at_a_time)
{
	struct pm_sampling *pm = open_pm(), *second = NULL;
	struct proton_error err = {0};

	CHECK_EQ(pm_sampling_open(0, INTERVAL_NS, &second, &err), PROTON_E_IO);
	CHECK_HAS(err.text, "cuptiPmSamplingEnable");
	CHECK(!second);
	close_pm(pm);
	close_pm(open_pm());
}

TEST(an_older_cupti_is_refused_with_its_path)
{
	struct pm_sampling *pm = NULL;
	struct proton_error err = {0};

	load_fake();
	CHECK_EQ(cupti_api_load(&err), PROTON_OK);
	libcupti.cuptiPmSamplingCounterDataGetSampleInfo = NULL;
	CHECK_EQ(pm_sampling_open(0, INTERVAL_NS, &pm, &err), PROTON_E_VERSION);
	CHECK_HAS(err.text, "has no PM sampling; CUPTI 12.6 or later is required");
	CHECK_HAS(err.text, "fake_cupti");
}
