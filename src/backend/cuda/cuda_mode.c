/* Parser of the backend's modes. */
#include "backend/cuda/cuda_mode.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#include "base/array.h"
#include "base/slice.h"
#include "record/backend.h"

#define SAMPLING "pcsampling"
#define DEFAULT "default:"
#define WINDOW_MIN_NS 1000000ull
#define DISTANCE_MAX_NS 3600000000000ull
#define MEMORY_DEFAULT_BYTES 64000000ull
#define OVERHEAD_DEFAULT 0.01
#define COUNTERS_OVERHEAD_DEFAULT 0.02

struct unit {
	const char *name;
	uint64_t factor;
};

/* Removes a decimal number from the beginning; false: there is none, or it is too large. */
static bool take_number(struct slice *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text->at, &end, 10);
	if (!isdigit((unsigned char)*text->at) || errno)
		return false;
	slice_skip(text, (size_t)(end - text->at));
	return true;
}

/* A number with one of the units. */
static bool take_quantity(struct slice *text, const struct unit *units, size_t count, uint64_t *out)
{
	if (!take_number(text, out))
		return false;
	for (size_t i = 0; i < count; i++)
		if (slice_take(text, units[i].name))
			return !__builtin_mul_overflow(*out, units[i].factor, out);
	return false;
}

static bool take_time(struct slice *text, uint64_t *out)
{
	static const struct unit units[] = {{"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

	return take_quantity(text, units, ARRAY_LENGTH(units), out);
}

/* LENGTH/DISTANCE. */
static int read_times(struct slice value, struct window_times *out, struct proton_error *err)
{
	struct slice rest = value;

	if (!take_time(&rest, &out->length_ns) || !slice_take(&rest, "/") ||
	    !take_time(&rest, &out->distance_ns) || rest.length || out->length_ns < WINDOW_MIN_NS ||
	    out->distance_ns > DISTANCE_MAX_NS || out->distance_ns <= out->length_ns)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: the windows are not a length and a longer distance: %.*s; "
			       "use for example 30ms/1s (units: us, ms, s; at least 1ms, at most "
			       "3600s)",
			       (int)value.length, value.at);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ PC sampling */

/* The power of two nearest to `cycles`, as its exponent. */
static uint32_t period_of(uint64_t cycles)
{
	uint32_t log2 = 63u - (uint32_t)__builtin_clzll(cycles);

	if (log2 < 63 && cycles - (1ull << log2) > (1ull << log2) / 2)
		log2++;
	return log2 < PCS_PERIOD_MIN   ? PCS_PERIOD_MIN
	       : log2 > PCS_PERIOD_MAX ? PCS_PERIOD_MAX
				       : log2;
}

static int read_interval(struct slice value, struct pcs_mode *out, struct proton_error *err)
{
	struct slice rest = value;
	uint64_t cycles;

	if (!take_number(&rest, &cycles) || rest.length || !cycles)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: " SAMPLING ": the interval is not a number of cycles: %.*s; "
			       "use 32 to 2147483648, which is rounded to a power of two",
			       (int)value.length, value.at);
	out->period = period_of(cycles);
	out->has_interval = true;
	return PROTON_OK;
}

static int read_sampling(struct slice option, struct cuda_mode *out, struct proton_error *err)
{
	struct slice value = option;

	if (slice_take(&value, "interval="))
		return read_interval(value, &out->sampling, err);
	if (slice_take(&value, "windows="))
		return read_times(value, &out->sampling.windows, err);
	if (!slice_is(option, "serialized"))
		return err_set(err, PROTON_E_INVALID,
			       "cupti: unsupported option of " SAMPLING ": %.*s; available: "
			       "interval=CYCLES, windows=LENGTH/DISTANCE, serialized",
			       (int)option.length, option.at);
	out->sampling.is_serialized = true;
	return PROTON_OK;
}

/* Options that depend on others. */
static int finish_sampling(struct pcs_mode *mode, struct proton_error *err)
{
	if (mode->is_serialized && mode->windows.length_ns)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: " SAMPLING
			       ": serialized sampling has no windows; remove one of "
			       "the options");
	if (!mode->has_interval && (mode->is_serialized || mode->windows.length_ns))
		mode->period = PCS_PERIOD_DENSE;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ windows */

static int read_memory(struct slice value, struct windows_mode *out, struct proton_error *err)
{
	static const struct unit units[] = {{"MB", 1000000}, {"GB", 1000000000}};
	struct slice rest = value;

	if (take_quantity(&rest, units, ARRAY_LENGTH(units), &out->memory_bytes) && !rest.length)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "cupti: the GPU memory of windows is not a size: %.*s; use for example 64MB "
		       "(units: MB, GB)",
		       (int)value.length, value.at);
}

static int read_overhead(struct slice value, const char *of, double *out, struct proton_error *err)
{
	struct slice rest = value;
	uint64_t percent;

	if (!take_number(&rest, &percent) || !slice_is(rest, "%") || !percent || percent > 100)
		return err_set(err, PROTON_E_INVALID,
			       "cupti: the overhead of %s is not a share: %.*s; use 1%% to "
			       "100%%",
			       of, (int)value.length, value.at);
	*out = (double)percent / 100;
	return PROTON_OK;
}

static int read_windows(struct slice option, struct cuda_mode *out, struct proton_error *err)
{
	struct slice value = option;

	if (slice_take(&value, "windows="))
		return read_times(value, &out->windows.times, err);
	if (slice_take(&value, "memory="))
		return read_memory(value, &out->windows, err);
	if (slice_take(&value, "overhead="))
		return read_overhead(value, "windows", &out->windows.overhead, err);
	return err_set(err, PROTON_E_INVALID,
		       "cupti: unsupported option of windows: %.*s; available: memory=SIZE, "
		       "overhead=PERCENT%%",
		       (int)option.length, option.at);
}

/* ------------------------------------------------------------------ counters */

static int read_counters(struct slice option, struct cuda_mode *out, struct proton_error *err)
{
	struct slice value = option;

	if (slice_take(&value, "counters=")) {
		if (slice_is(value, "roofline"))
			return PROTON_OK;
		return err_set(err, PROTON_E_INVALID,
			       "cupti: unsupported counters: %.*s; available: roofline",
			       (int)value.length, value.at);
	}
	if (slice_take(&value, "overhead="))
		return read_overhead(value, "counters", &out->counters_overhead, err);
	return err_set(err, PROTON_E_INVALID,
		       "cupti: unsupported option of counters: %.*s; available: "
		       "overhead=PERCENT%%; they cannot be combined with windows",
		       (int)option.length, option.at);
}

static bool is_default_with(const char *mode, const char *option)
{
	return strncasecmp(mode, DEFAULT, strlen(DEFAULT)) == 0 &&
	       strncmp(mode + strlen(DEFAULT), option, strlen(option)) == 0;
}

int cuda_mode_read(const char *mode, struct cuda_mode *out, struct proton_error *err)
{
	const char *at = mode + strcspn(mode, ":");
	int status = PROTON_OK;

	*out = (struct cuda_mode){
		.samples = at - mode == strlen(SAMPLING) &&
			   strncasecmp(mode, SAMPLING, strlen(SAMPLING)) == 0,
		.in_windows = is_default_with(mode, "windows="),
		.counts = is_default_with(mode, "counters="),
		.sampling = {.period = PCS_PERIOD_DEFAULT},
		.windows = {.memory_bytes = MEMORY_DEFAULT_BYTES, .overhead = OVERHEAD_DEFAULT},
		.counters_overhead = COUNTERS_OVERHEAD_DEFAULT,
	};
	if (*mode && !out->samples && !out->in_windows && !out->counts)
		return backend_refuse_mode("cupti", mode, err);
	while (*at && status == PROTON_OK) {
		struct slice option = {at + 1, strcspn(at + 1, ":")};

		status = (out->samples  ? read_sampling
			  : out->counts ? read_counters
					: read_windows)(option, out, err);
		at = slice_end(option);
	}
	return status == PROTON_OK && out->samples ? finish_sampling(&out->sampling, err) : status;
}
