/* Clocks, temperature and power of GPUs, sampled through NVML. */
#include "driver/gpu_state.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "driver/library_search.h"
#include "record/store/devices.h"

#define INTERVAL_NS 1000000000u

static const struct {
	unsigned bit;
	const char *name;
} reasons[] = {
	{NVML_REASON_SOFTWARE_POWER, "power cap"},
	{NVML_REASON_POWER_BRAKE, "power brake"},
	{NVML_REASON_SOFTWARE_THERMAL, "thermal"},
	{NVML_REASON_HARDWARE_THERMAL, "hardware thermal"},
	{NVML_REASON_HARDWARE_SLOWDOWN, "hardware slowdown"},
	{NVML_REASON_SYNC_BOOST, "sync boost"},
	{NVML_REASON_APPLICATION_CLOCKS, "application clocks"},
	{NVML_REASON_DISPLAY_CLOCKS, "display clocks"},
	{NVML_REASON_IDLE, "idle"},
};

static struct nvml {
#define X(name, version, is_needed, arguments) int(*name) arguments;
#include "driver/nvml_functions.def"
#undef X
} nvml;

static const struct function functions[] = {
#define X(name, version, is_needed, arguments)                                                     \
	{#name #version, offsetof(struct nvml, name), is_needed},
#include "driver/nvml_functions.def"
#undef X
};

/* Sampled values: X(key with its unit, divisor of the value of NVML, its call). */
#define QUANTITIES(X)                                                                              \
	X(sm_clock_mhz, 1, nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM, out))                        \
	X(memory_clock_mhz, 1, nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_MEMORY, out))                \
	X(temperature_c, 1, nvmlDeviceGetTemperature(gpu, NVML_TEMPERATURE_GPU, out))              \
	X(power_w, 1000, nvmlDeviceGetPowerUsage(gpu, out))                                        \
	X(power_limit_w, 1000, nvmlDeviceGetEnforcedPowerLimit(gpu, out))

#define READER(key, divisor, call)                                                                 \
	static bool read_##key(void *gpu, unsigned *out)                                           \
	{                                                                                          \
		return nvml.call == 0;                                                             \
	}
QUANTITIES(READER)
#undef READER

/* Without this process, which has a context, too. */
static bool read_other_processes(void *gpu, unsigned *out)
{
	unsigned count = 0;
	int result = nvml.nvmlDeviceGetComputeRunningProcesses
			     ? nvml.nvmlDeviceGetComputeRunningProcesses(gpu, &count, NULL)
			     : -1;

	*out = count - (count > 0);
	return result == 0 || result == NVML_ERROR_INSUFFICIENT_SIZE;
}

static const struct {
	const char *key;
	unsigned divisor;
	bool (*read)(void *gpu, unsigned *out);
} quantities[] = {
#define ROW(key, divisor, call) {#key, divisor, read_##key},
	QUANTITIES(ROW)
#undef ROW
		{"other_processes", 1, read_other_processes},
};

struct range {
	uint64_t count, sum;
	unsigned min, max;
};

struct gpu_state {
	bool is_known; /* its handle was asked for */
	void *handle;  /* NULL: NVML does not have it */
	bool is_busy;  /* some sample was not of an idle GPU; then idle ones do not count */
	struct range ranges[ARRAY_LENGTH(quantities)];
	uint64_t reasons; /* of all samples */
	uint64_t first_energy, last_energy;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all but `library` */
static struct gpu_state gpus[DEVICE_MAX];                /* by id of record/store/devices.h */
static uint64_t sampled_ns;
static bool is_begun; /* energy was read */
/* Stored when `nvml` is complete, with the lock held (release); read without it (acquire). */
static _Atomic enum {
	NVML_UNTRIED,
	NVML_LOADED,
	NVML_ABSENT,
} library;

/* ------------------------------------------------------------------ sampling */

static void load(void)
{
	const char *named = library_search_value("PROTON_NVML_PATH"); /* for tests */
	void *handle = dlopen(named ?: "libnvidia-ml.so.1", RTLD_LAZY);
	bool is_usable = false;

	if (handle) {
		functions_bind(handle, functions, ARRAY_LENGTH(functions), &nvml);
		is_usable = !functions_missing(functions, ARRAY_LENGTH(functions), &nvml, 1) &&
			    nvml.nvmlInit() == 0;
	}
	atomic_store_explicit(&library, is_usable ? NVML_LOADED : NVML_ABSENT,
			      memory_order_release);
}

static void add_to_range(struct range *range, unsigned value)
{
	if (!range->count || value < range->min)
		range->min = value;
	if (!range->count || value > range->max)
		range->max = value;
	range->sum += value;
	range->count++;
}

static void sample_energy(struct gpu_state *gpu)
{
	unsigned long long energy;

	if (nvml.nvmlDeviceGetTotalEnergyConsumption(gpu->handle, &energy) != 0)
		return;
	if (!gpu->first_energy)
		gpu->first_energy = energy;
	gpu->last_energy = energy;
}

/* The clocks of an idle GPU say nothing about kernels: they count only until it is busy. */
static void sample_gpu(struct gpu_state *gpu)
{
	unsigned long long now = 0;

	nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu->handle, &now);
	sample_energy(gpu);
	bool is_idle = now & NVML_REASON_IDLE;
	if (is_idle && gpu->is_busy)
		return;
	if (!is_idle && !gpu->is_busy) {
		memset(gpu->ranges, 0, sizeof(gpu->ranges));
		gpu->reasons = 0;
		gpu->is_busy = true;
	}
	gpu->reasons |= now;
	for (size_t i = 0; i < ARRAY_LENGTH(quantities); i++) {
		unsigned value;

		if (quantities[i].read(gpu->handle, &value))
			add_to_range(&gpu->ranges[i], value);
	}
}

static void sample_all(void (*sample)(struct gpu_state *gpu))
{
	const struct device *device;

	for (uint32_t i = 0; i < DEVICE_MAX && (device = devices_get(i)); i++) {
		struct gpu_state *gpu = &gpus[i];

		if (strcmp(device->type, "CUDA") != 0)
			continue;
		if (!gpu->is_known && *device->pci &&
		    nvml.nvmlDeviceGetHandleByPciBusId(device->pci, &gpu->handle) != 0)
			gpu->handle = NULL;
		gpu->is_known = true;
		if (gpu->handle)
			sample(gpu);
	}
}

void gpu_state_sample(void)
{
	MUTEX_HOLD(&lock);
	if (atomic_load_explicit(&library, memory_order_relaxed) == NVML_UNTRIED)
		load();
	if (atomic_load_explicit(&library, memory_order_relaxed) != NVML_LOADED)
		return;
	/* NVML has clocks of the last tenths of a second, before the session. */
	if (!is_begun) {
		is_begun = true;
		sample_all(sample_energy);
	} else if (!sampled_ns || clock_monotonic_ns() - sampled_ns >= INTERVAL_NS) {
		sampled_ns = clock_monotonic_ns();
		sample_all(sample_gpu);
	}
}

void gpu_state_clear(void)
{
	MUTEX_HOLD(&lock);
	memset(gpus, 0, sizeof(gpus));
	sampled_ns = 0;
	is_begun = false;
}

void gpu_state_forked(void)
{
	pthread_mutex_init(&lock, NULL); /* a thread of the parent may have held it */
	memset(gpus, 0, sizeof(gpus));
	if (atomic_load(&library) == NVML_LOADED)
		atomic_store(&library, NVML_ABSENT);
}

/* ------------------------------------------------------------------ the profile */

static void add_reasons(backend_add_fn add, void *user, const char *key, uint64_t bits)
{
	char text[160] = "";
	size_t used = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
		if (bits & reasons[i].bit && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? ", " : "", reasons[i].name);
	add(user, key, used ? text : "none");
}

static void describe_gpu(backend_add_fn add, void *user, uint32_t id, const struct gpu_state *gpu)
{
	char key[48], text[64];

	for (size_t i = 0; i < ARRAY_LENGTH(quantities); i++) {
		const struct range *range = &gpu->ranges[i];
		double divisor = quantities[i].divisor;

		if (!range->count)
			continue;
		snprintf(key, sizeof(key), "gpu%u_%s", id, quantities[i].key);
		snprintf(text, sizeof(text), "%g %.6g %g", range->min / divisor,
			 (double)range->sum / (double)range->count / divisor, range->max / divisor);
		add(user, key, text);
	}
	snprintf(key, sizeof(key), "gpu%u_throttle_reasons", id);
	add_reasons(add, user, key, gpu->reasons);
	snprintf(key, sizeof(key), "gpu%u_energy_j", id);
	snprintf(text, sizeof(text), "%.3f", (double)(gpu->last_energy - gpu->first_energy) / 1000);
	if (gpu->last_energy > gpu->first_energy)
		add(user, key, text);
}

void gpu_state_describe(backend_add_fn add, void *user)
{
	/* Without the lock: a thread may be loading NVML, and a session starts. */
	if (atomic_load_explicit(&library, memory_order_acquire) != NVML_LOADED)
		return;
	MUTEX_HOLD(&lock);
	sampled_ns = clock_monotonic_ns();
	sample_all(sample_gpu);
	for (uint32_t i = 0; i < DEVICE_MAX; i++)
		if (gpus[i].handle)
			describe_gpu(add, user, devices_get(i)->id, &gpus[i]);
}
