/*
 * PM sampling through CUPTI. The order of calls, their traps and prices were measured with CUPTI
 * 13.0 on an H200: docs/design/pm-sampling.md.
 */
#include "backend/cuda/pm_sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "backend/cuda/profiler_host.h"
#include "base/array.h"

#define CANDIDATES 3u
#define HARDWARE_BYTES (64u << 20)
#define DECODED_SAMPLES 2048u
#define READS_MAX 64u /* of one call, of DECODED_SAMPLES each */

/*
 * Metrics of each column: the first one that the chip has, and that leaves all in a single pass.
 * The Triage names of GH100 and GB100 fit into one pass all together, which plain names do not;
 * other chips have others. All chips of CUPTI 13.0's host library were asked.
 */
static const char *const metrics[PM_COLUMNS][CANDIDATES] = {
	[PM_SM] = {"TPC.TriageCompute.sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
		   "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"},
	[PM_TENSOR] = {"TPC.TriageCompute.sm__pipe_tensor_cycles_active_realtime.avg."
		       "pct_of_peak_sustained_elapsed",
		       "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"},
	[PM_DRAM_READ] = {"FBSP.TriageCompute.dramc__read_throughput.avg."
			  "pct_of_peak_sustained_elapsed",
			  "FBSP.TriageCompute.dram__read_throughput.avg."
			  "pct_of_peak_sustained_elapsed",
			  "dram__read_throughput.avg.pct_of_peak_sustained_elapsed"},
	[PM_DRAM_WRITE] = {"FBSP.TriageCompute.dramc__write_throughput.avg."
			   "pct_of_peak_sustained_elapsed",
			   "FBSP.TriageCompute.dram__write_throughput.avg."
			   "pct_of_peak_sustained_elapsed",
			   "dram__write_throughput.avg.pct_of_peak_sustained_elapsed"},
	[PM_ISSUE] = {"TPC.TriageCompute.sm__inst_executed_realtime.avg."
		      "pct_of_peak_sustained_elapsed",
		      "sm__inst_executed.avg.pct_of_peak_sustained_elapsed"},
	[PM_WARPS] = {"TPC.TriageCompute.tpc__warps_active_shader_cs_realtime.avg."
		      "pct_of_peak_sustained_elapsed",
		      "sm__warps_active.avg.pct_of_peak_sustained_active"},
	[PM_L2] = {"LTS.TriageCompute.lts__throughput.avg.pct_of_peak_sustained_elapsed",
		   "lts__t_sectors.avg.pct_of_peak_sustained_elapsed"},
	[PM_PCIE_READ] = {"PCI.TriageCompute.pcie__read_bytes.sum", "pcie__read_bytes.sum"},
	[PM_PCIE_WRITE] = {"PCI.TriageCompute.pcie__write_bytes.sum", "pcie__write_bytes.sum"},
	[PM_NVLINK_READ] = {"NVLRX.TriageCompute.nvlrx__bytes_packet_request_data_user.sum"},
	[PM_NVLINK_WRITE] = {"NVLTX.TriageCompute.nvltx__bytes_packet_request_data_user.sum"},
	[PM_GR] = {"FE_B.TriageCompute.gr__cycles_active.avg.pct_of_peak_sustained_elapsed",
		   "gr__cycles_active.avg.pct_of_peak_sustained_elapsed"},
};

struct pm_sampling {
	struct profiler_host host;
	void *sampling; /* NULL: not enabled */
	uint8_t *data;  /* counter data image */
	uint8_t *fresh_data;
	size_t data_bytes;
	uint64_t began_ns; /* end of the first sample, which began long before Start */
	bool is_started;
	const char *names[PM_COLUMNS];
	enum pm_column columns[PM_COLUMNS]; /* by name */
	size_t count;
};

static int fail(int result, const char *call, struct proton_error *err)
{
	return cupti_api_error(result, call, err);
}

/* ------------------------------------------------------------------ the configuration */

static bool try_metrics(struct pm_sampling *pm, size_t count)
{
	return profiler_host_configure(&pm->host, pm->names, count);
}

static void add_column(struct pm_sampling *pm, enum pm_column column)
{
	for (size_t i = 0; i < CANDIDATES && metrics[column][i]; i++) {
		pm->names[pm->count] = metrics[column][i];
		pm->columns[pm->count] = column;
		if (try_metrics(pm, pm->count + 1)) {
			pm->count++;
			return;
		}
	}
}

/* As many columns as this chip samples in a single pass. */
static void choose_metrics(struct pm_sampling *pm)
{
	for (enum pm_column column = 0; column < PM_COLUMNS; column++)
		add_column(pm, column);
}

static int read_availability(struct pm_sampling *pm, uint32_t device)
{
	struct pm_availability_params params =
		PARAMS(pm_availability_params, image, .device = device);
	int result = libcupti.cuptiPmSamplingGetCounterAvailability(&params);

	if (result != CUPTI_OK)
		return result;
	pm->host.availability = params.image = calloc(1, params.image_bytes);
	return pm->host.availability ? libcupti.cuptiPmSamplingGetCounterAvailability(&params)
				     : CUPTI_E_OUT_OF_MEMORY;
}

static int configure(struct pm_sampling *pm, uint32_t device, struct proton_error *err)
{
	int status = profiler_host_open(&pm->host, device, err);
	int result;

	if (status != PROTON_OK)
		return status;
	result = read_availability(pm, device);
	if (result != CUPTI_OK)
		return fail(result, "cuptiPmSamplingGetCounterAvailability", err);
	choose_metrics(pm);
	if (!pm->count)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "CUPTI samples no counters of GPU %u (%s); libnvperf_host.so has to "
			       "be in the directory of %s",
			       device, pm->host.chip, libcupti.path);
	/* The last attempt may have been one too many. */
	if (!try_metrics(pm, pm->count))
		return err_set(err, PROTON_E_IO, "CUPTI refuses the counters that it accepted");
	return PROTON_OK;
}

/* ------------------------------------------------------------------ sampling */

static int prepare_data(struct pm_sampling *pm)
{
	struct pm_data_size_params size = PARAMS(pm_data_size_params, bytes,
						 .sampling = pm->sampling, .names = pm->names,
						 .count = pm->count, .samples = DECODED_SAMPLES);
	struct pm_data_begin_params begin =
		PARAMS(pm_data_begin_params, image, .sampling = pm->sampling);
	int result = libcupti.cuptiPmSamplingGetCounterDataSize(&size);

	if (result != CUPTI_OK)
		return result;
	pm->data_bytes = begin.bytes = size.bytes;
	pm->data = calloc(1, size.bytes);
	pm->fresh_data = begin.image = calloc(1, size.bytes);
	return pm->data && pm->fresh_data
		       ? libcupti.cuptiPmSamplingCounterDataImageInitialize(&begin)
		       : CUPTI_E_OUT_OF_MEMORY;
}

static int start(struct pm_sampling *pm, uint32_t device, uint64_t interval_ns,
		 struct proton_error *err)
{
	struct pm_enable_params enable = PARAMS(pm_enable_params, sampling, .device = device);
	struct pm_set_config_params config = PARAMS(
		pm_set_config_params, append, .bytes = pm->host.config_bytes,
		.image = pm->host.config, .hardware_bytes = HARDWARE_BYTES, .interval = interval_ns,
		.trigger = PM_TRIGGER_TIME, .append = PM_KEEP_OLDEST);
	struct pm_params params = PARAMS(pm_params, sampling);
	int result = libcupti.cuptiPmSamplingEnable(&enable);

	if (result != CUPTI_OK)
		return fail(result, "cuptiPmSamplingEnable", err);
	pm->sampling = config.sampling = params.sampling = enable.sampling;
	result = libcupti.cuptiPmSamplingSetConfig(&config);
	if (result != CUPTI_OK)
		return fail(result, "cuptiPmSamplingSetConfig", err);
	result = prepare_data(pm);
	if (result != CUPTI_OK)
		return fail(result, "cuptiPmSamplingCounterDataImageInitialize", err);
	result = libcupti.cuptiPmSamplingStart(&params);
	pm->is_started = result == CUPTI_OK;
	return pm->is_started ? PROTON_OK : fail(result, "cuptiPmSamplingStart", err);
}

int pm_sampling_open(uint32_t device, uint64_t interval_ns, struct pm_sampling **out,
		     struct proton_error *err)
{
	int status = cupti_api_load(err);
	struct pm_sampling *pm;

	if (status != PROTON_OK)
		return status;
	if (!libcupti.cuptiPmSamplingCounterDataGetSampleInfo ||
	    !libcupti.cuptiProfilerHostEvaluateToGpuValues)
		return err_set(err, PROTON_E_VERSION,
			       "%s has no PM sampling; CUPTI 12.6 or later is required",
			       libcupti.path);
	pm = calloc(1, sizeof(*pm));
	if (!pm)
		return err_set(err, PROTON_E_NOMEM, "out of memory");
	pm->host.type = HOST_PM_SAMPLING;
	status = configure(pm, device, err);
	if (status == PROTON_OK)
		status = start(pm, device, interval_ns, err);
	if (status != PROTON_OK) {
		pm_sampling_close(pm);
		return status;
	}
	*out = pm;
	return PROTON_OK;
}

bool pm_sampling_has(const struct pm_sampling *pm, enum pm_column column)
{
	for (size_t i = 0; i < pm->count; i++)
		if (pm->columns[i] == column)
			return true;
	return false;
}

static int read_sample(struct pm_sampling *pm, size_t index, struct pm_sample *sample)
{
	struct pm_sample_info_params info = PARAMS(pm_sample_info_params, end_ns,
						   .sampling = pm->sampling, .image = pm->data,
						   .image_bytes = pm->data_bytes, .index = index);
	double values[PM_COLUMNS];
	int result = libcupti.cuptiPmSamplingCounterDataGetSampleInfo(&info);

	if (result == CUPTI_OK)
		result = profiler_host_evaluate(&pm->host, pm->data, pm->data_bytes, index,
						pm->names, pm->count, values);
	*sample = (struct pm_sample){.start_ns = info.start_ns, .end_ns = info.end_ns};
	for (size_t i = 0; i < PM_COLUMNS; i++)
		sample->values[i] = (double)NAN;
	for (size_t i = 0; i < pm->count; i++)
		sample->values[pm->columns[i]] = values[i];
	return result;
}

/* The samples that a decoding has found. */
static int pass_samples(struct pm_sampling *pm, pm_sample_fn add, void *user)
{
	struct pm_data_info_params info = PARAMS(pm_data_info_params, completed, .image = pm->data,
						 .image_bytes = pm->data_bytes);
	int result = libcupti.cuptiPmSamplingGetCounterDataInfo(&info);

	for (size_t i = 0; i < info.completed && result == CUPTI_OK; i++) {
		struct pm_sample sample;

		result = read_sample(pm, i, &sample);
		if (result == CUPTI_OK && pm->began_ns && sample.end_ns > sample.start_ns)
			add(&sample, user);
		if (!pm->began_ns)
			pm->began_ns = sample.end_ns;
	}
	return result;
}

int pm_sampling_read(struct pm_sampling *pm, pm_sample_fn add, void *user, bool *lost_out,
		     struct proton_error *err)
{
	struct pm_decode_params decode =
		PARAMS(pm_decode_params, overflow, .sampling = pm->sampling, .image = pm->data,
		       .image_bytes = pm->data_bytes, .stop_reason = PM_STOP_BUFFER_FULL);

	for (uint32_t i = 0; i < READS_MAX && decode.stop_reason == PM_STOP_BUFFER_FULL; i++) {
		int result;

		/* A copy of a fresh image takes less time than making one. */
		memcpy(pm->data, pm->fresh_data, pm->data_bytes);
		result = libcupti.cuptiPmSamplingDecodeData(&decode);
		*lost_out |= decode.overflow || result == CUPTI_E_OUT_OF_MEMORY;
		if (result != CUPTI_OK)
			return fail(result, "cuptiPmSamplingDecodeData", err);
		result = pass_samples(pm, add, user);
		if (result != CUPTI_OK)
			return fail(result, "cuptiProfilerHostEvaluateToGpuValues", err);
	}
	return PROTON_OK;
}

void pm_sampling_close(struct pm_sampling *pm)
{
	struct pm_params params = PARAMS(pm_params, sampling);

	if (!pm)
		return;
	params.sampling = pm->sampling;
	if (pm->is_started)
		libcupti.cuptiPmSamplingStop(&params);
	if (pm->sampling)
		libcupti.cuptiPmSamplingDisable(&params);
	profiler_host_fini(&pm->host);
	FREE_ALL(pm->host.availability, pm->data, pm->fresh_data, pm);
}
