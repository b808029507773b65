/* Record overhead per chip: from the environment, else by calibration. */
#include "backend/intra/record_overhead.h"

#include <math.h>
#include <time.h>

#include "backend/intra/calibrate_kernel.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/message.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "format/number.h"

/* ------------------------------------------------------------------ calibration */

/*
 * Calibration launches its kernel several times on its own stream. Other work on the same SM and
 * cold caches only make it slower, so the minimum of all launches is used.
 */
#define LAUNCHES 32u
#define THREADS 32u
#define EMPTIES (CALIBRATE_FEW + CALIBRATE_MANY)
/* No record takes longer, unless another kernel ran. */
#define EXECUTION_CYCLES_MAX 10000
#define PAUSE_NS 20000

/* Scope indices in the kernel's layout. */
enum {
	FEW,
	EMPTY,
	MANY
};

struct calibration {
	void *context;
	struct instrument_layout layout;
	void *stream;
	void *module;
	void *function;
	uint64_t address; /* device memory: a buffer per launch */
	uint8_t *bytes;   /* host copy */
	size_t size;      /* of both */
	bool is_used;     /* the device may still write to it */
	struct proton_error *err;
};

/* Resources that the device was still using, to be released later. */
static struct calibration left;

/* Minimum measured cycles. */
struct minimum {
	uint64_t outer[2]; /* around few, around many */
	uint64_t empty[EMPTIES];
	uint32_t launches;
};

static bool is_done(const struct calibration *it, const char *call, int result)
{
	if (result)
		err_set(it->err, PROTON_E_UNSUPPORTED, "%s failed (%d)", call, result);
	return !result;
}

/* Calls a function of the driver. */
#define CALL(it, function, ...) is_done(it, #function, driver.function(__VA_ARGS__))

static bool prepare(struct calibration *it)
{
	if (layout_read(calibrate_layout, calibrate_layout_bytes, &it->layout, it->err) !=
	    PROTON_OK)
		return false;
	it->size = (size_t)LAUNCHES * it->layout.cta_bytes;
	it->bytes = malloc(it->size);
	if (!it->bytes) {
		err_nomem(it->err);
		return false;
	}
	return CALL(it, cuModuleLoadData, &it->module, calibrate_kernel) &&
	       CALL(it, cuModuleGetFunction, &it->function, it->module, CALIBRATE_NAME) &&
	       CALL(it, cuStreamCreate, &it->stream, DRIVER_STREAM_NON_BLOCKING) &&
	       CALL(it, cuMemAlloc, &it->address, it->size);
}

static bool launch_all(struct calibration *it)
{
	bool is_ok = CALL(it, cuMemsetD8Async, it->address, 0, it->size, it->stream);

	it->is_used = is_ok;
	for (uint32_t i = 0; is_ok && i < LAUNCHES; i++) {
		uint64_t unused = 0; /* Triton's global scratch memory */
		uint64_t buffer = it->address + (uint64_t)i * it->layout.cta_bytes;
		void *parameters[] = {&unused, &buffer};

		is_ok = CALL(it, cuLaunchKernel, it->function, 1, 1, 1, THREADS, 1, 1,
			     calibrate_shared_bytes, it->stream, parameters, NULL);
	}
	return is_ok;
}

static bool set_busy(struct proton_error *err)
{
	err_set(err, PROTON_E_UNSUPPORTED, "the GPU was busy");
	return false;
}

/* Not cuStreamSynchronize() at first: a kernel of the program may occupy the device for long. */
static bool await_records(struct calibration *it, uint64_t limit_ns)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint64_t start_ns = clock_monotonic_ns();
	int result;

	while ((result = driver.cuStreamQuery(it->stream)) == DRIVER_NOT_READY) {
		if (clock_monotonic_ns() - start_ns > limit_ns)
			return set_busy(it->err);
		nanosleep(&pause, NULL);
	}
	it->is_used = result != 0;
	return is_done(it, "cuStreamQuery", result) &&
	       CALL(it, cuMemcpyDtoHAsync, it->bytes, it->address, it->size, it->stream) &&
	       CALL(it, cuStreamSynchronize, it->stream);
}

/* Keeps what the device may still use; with several contexts, only the first is kept. */
static void release(struct calibration *it)
{
	free(it->bytes);
	it->bytes = NULL;
	layout_fini(&it->layout);
	if (it->is_used && driver.cuStreamQuery(it->stream) == DRIVER_NOT_READY) {
		it->err = NULL;
		if (!left.context)
			left = *it;
		return;
	}
	if (it->address)
		driver.cuMemFree(it->address);
	if (it->stream)
		driver.cuStreamDestroy(it->stream);
	if (it->module)
		driver.cuModuleUnload(it->module);
}

/* Reads one launch; a launch with missing records is ignored. */
static void read_launch(const struct decoder *decoder, struct minimum *minimum)
{
	struct minimum seen = *minimum;
	uint32_t counts[] = {[FEW] = 0, [EMPTY] = 0, [MANY] = 0};

	if (decoder->execution_count != EMPTIES + 2)
		return;
	ARRAY_EACH(execution, decoder->executions, EMPTIES + 2) {
		uint32_t index = counts[execution->scope]++;
		uint64_t *min = &seen.outer[execution->scope == MANY];

		if (execution->scope == EMPTY && index < EMPTIES)
			min = &seen.empty[index];
		if (execution->duration < *min)
			*min = execution->duration;
	}
	if (counts[FEW] != 1 || counts[MANY] != 1)
		return;
	*minimum = seen;
	minimum->launches++;
}

static int32_t mean_price(uint64_t cycles, uint32_t count)
{
	return (int32_t)((cycles * DECODE_CYCLE + count / 2) / count);
}

static bool compute_overhead(const struct minimum *minimum, struct decode_overhead *out,
			     struct proton_error *err)
{
	uint64_t more = minimum->outer[1] - minimum->outer[0];
	uint64_t empty = 0;

	for (uint32_t i = 0; i < EMPTIES && minimum->launches; i++)
		empty += minimum->empty[i] < EXECUTION_CYCLES_MAX ? minimum->empty[i]
								  : EXECUTION_CYCLES_MAX;
	if (minimum->launches < LAUNCHES / 2 || minimum->outer[1] <= minimum->outer[0] ||
	    more > (uint64_t)EXECUTION_CYCLES_MAX * CALIBRATE_MANY || !empty ||
	    empty >= (uint64_t)EXECUTION_CYCLES_MAX * EMPTIES) {
		err_set(err, PROTON_E_UNSUPPORTED,
			"the calibration kernel returned implausible values");
		return false;
	}
	*out = (struct decode_overhead){
		.empty = mean_price(empty, EMPTIES),
		.scope = mean_price(more, CALIBRATE_MANY - CALIBRATE_FEW),
	};
	return true;
}

static bool read_launches(const struct calibration *it, struct decode_overhead *out)
{
	struct minimum minimum;
	AT_END(decoder_fini) struct decoder decoder;
	bool is_ok = true;

	memset(&minimum, 0xff, sizeof(minimum));
	minimum.launches = 0;
	decoder_init(&decoder, &it->layout, (struct decode_overhead){0});
	for (uint32_t i = 0; i < LAUNCHES && is_ok; i++) {
		is_ok = decode_cta(&decoder, it->bytes + (size_t)i * it->layout.cta_bytes);
		if (is_ok)
			read_launch(&decoder, &minimum);
	}
	if (!is_ok)
		err_nomem(it->err);
	return is_ok && compute_overhead(&minimum, out, it->err);
}

bool calibrate(uint64_t limit_ns, struct decode_overhead *out, struct proton_error *err)
{
	struct calibration it = {.err = err};
	struct calibration before = left;

	if (!driver.cuModuleLoadData) {
		err_set(err, PROTON_E_UNSUPPORTED, "calibration supports NVIDIA GPUs only");
		return false;
	}
	driver.cuCtxGetCurrent(&it.context);
	if (before.context && before.context == it.context) {
		left.context = NULL;
		release(&before);
		if (left.context)
			return set_busy(err);
	}
	bool is_ok = prepare(&it) && launch_all(&it) && await_records(&it, limit_ns) &&
		     read_launches(&it, out);
	release(&it);
	return is_ok;
}

/* ------------------------------------------------------------------ overhead of a chip */

/* Maximum cycles per record; no clock is slower. */
#define CYCLES_MAX 1e6

#define CHIP_MAX 16u

/* Per chip: devices of one kind have the same overhead. */
struct measured {
	int chip; /* 10 x major + minor; 0: AMD or unknown */
	bool is_known;
	uint32_t run; /* in which it was measured; a failure holds for this run only */
	struct decode_overhead overhead;
	struct proton_error failure;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the next two */
static struct measured measured[CHIP_MAX];
static uint32_t measured_count;
static _Atomic uint32_t run;

static struct {
	struct decode_overhead overhead;
	bool is_given; /* set by the user */
	bool is_wanted;
} own;

/* Parses a number of cycles in JSON syntax, followed by `end`; false if there is none. */
static bool read_cycles(const char **text, char end, int32_t *out)
{
	const char *at = *text;

	while (*at >= '0' && *at <= '9')
		at++;
	if (at == *text)
		return false;
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9';)
			at++;
	if (*at != end)
		return false;
	double cycles = number_to_double(*text);
	if (cycles > CYCLES_MAX)
		return false;
	*out = (int32_t)lround(cycles * DECODE_CYCLE);
	*text = end ? at + 1 : at;
	return true;
}

/* Parses "EMPTY,SCOPE", in cycles. */
static bool read_overhead(const char *text, struct decode_overhead *out)
{
	return read_cycles(&text, ',', &out->empty) && read_cycles(&text, 0, &out->scope);
}

int record_overhead_start(const struct instrument_mode *mode, struct proton_error *err)
{
	const char *text = environment_get("PROTON_INSTRUMENT_COST");

	run++; /* calibration is tried again: a device may only have been busy */
	own.overhead = (struct decode_overhead){0};
	own.is_wanted = mode->time_shift;
	if (own.is_wanted && text && !read_overhead(text, &own.overhead))
		return err_set(
			err, PROTON_E_INVALID,
			"PROTON_INSTRUMENT_COST must be two comma-separated cycle counts, not "
			"\"%s\"",
			text);
	own.is_given = text != NULL;
	return PROTON_OK;
}

/* The lock is held. A failed calibration is not repeated in the same run. */
static const struct measured *measured_on(int chip)
{
	struct measured *it = measured;

	while (it < measured + measured_count && it->chip != chip)
		it++;
	if (it < measured + measured_count && (it->is_known || it->run == run))
		return it;
	if (it == measured + measured_count && measured_count < CHIP_MAX - 1)
		measured_count++; /* the last is for all further ones */
	*it = (struct measured){.chip = chip, .run = run};
	it->is_known = calibrate(CALIBRATE_LIMIT_NS, &it->overhead, &it->failure);
	return it;
}

struct decode_overhead record_overhead_on(const struct device *device)
{
	if (!own.is_wanted || own.is_given)
		return own.overhead;
	MUTEX_HOLD(&lock);
	const struct measured *it = measured_on(device ? (int)strtol(device->arch, NULL, 10) : 0);
	struct decode_overhead overhead = it->overhead;
	if (!it->is_known)
		message("time_shift has no effect: the record overhead on this GPU is unknown "
			"(%s); set PROTON_INSTRUMENT_COST (bench/intra.py measures it)",
			it->failure.text);
	return overhead;
}

void record_overhead_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	left = (struct calibration){0};
}
