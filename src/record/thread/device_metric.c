/* Device metrics: the public call, and conversion of values. */

#include <math.h>

#include "base/array.h"
#include "base/buf.h"
#include "record/names/frames.h"
#include "record/sets/record_sessions.h"
#include "record/thread/adding.h"
#include "record/thread/captured.h"

#define INLINE_COUNT 16u

/* Size of an element; 0 for an unknown type. */
static uint32_t element_bytes(enum proton_element element)
{
	static const uint8_t bytes[] = {
		[PROTON_ELEMENT_BOOL] = 1,     [PROTON_ELEMENT_INT8] = 1,
		[PROTON_ELEMENT_UINT8] = 1,    [PROTON_ELEMENT_INT16] = 2,
		[PROTON_ELEMENT_UINT16] = 2,   [PROTON_ELEMENT_FLOAT16] = 2,
		[PROTON_ELEMENT_BFLOAT16] = 2, [PROTON_ELEMENT_INT32] = 4,
		[PROTON_ELEMENT_UINT32] = 4,   [PROTON_ELEMENT_FLOAT32] = 4,
		[PROTON_ELEMENT_INT64] = 8,    [PROTON_ELEMENT_UINT64] = 8,
		[PROTON_ELEMENT_FLOAT64] = 8,
	};

	return (size_t)element < ARRAY_LENGTH(bytes) ? bytes[element] : 0;
}

/* IEEE 754 binary16: 5 bits of exponent with bias 15, 10 of fraction. */
static double half_of(uint16_t bits)
{
	int exponent = bits >> 10 & 31;
	int fraction = bits & 1023;
	double value;

	if (exponent == 31)
		value = fraction ? NAN : INFINITY;
	else if (exponent)
		value = ldexp(1024 + fraction, exponent - 25);
	else
		value = ldexp(fraction, -24);
	return bits & 0x8000 ? -value : value;
}

static double float_of(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* One element of device memory: an integer or a floating-point number. */
struct number {
	bool is_float;
	int64_t int64;
	double float64;
};

static struct number read_element(enum proton_element element, const unsigned char *at)
{
	struct number number = {.is_float = element >= PROTON_ELEMENT_FLOAT16};
	bool is_signed = element == PROTON_ELEMENT_INT8 || element == PROTON_ELEMENT_INT16 ||
			 element == PROTON_ELEMENT_INT32;
	uint32_t bytes = element_bytes(element);
	uint32_t unused = is_signed ? 64 - 8 * bytes : 0;
	uint64_t bits = 0;

	memcpy(&bits, at, bytes); /* little-endian, as this machine: see format/rows.h */
	if (element == PROTON_ELEMENT_BOOL)
		number.int64 = bits != 0;
	else if (!number.is_float) /* values above 2^63 wrap, as sums of metrics do */
		number.int64 = (int64_t)(bits << unused) >> unused;
	else if (element == PROTON_ELEMENT_FLOAT16)
		number.float64 = half_of((uint16_t)bits);
	else if (element == PROTON_ELEMENT_BFLOAT16) /* the upper half of a binary32 */
		number.float64 = float_of((uint32_t)bits << 16);
	else if (element == PROTON_ELEMENT_FLOAT32)
		number.float64 = float_of((uint32_t)bits);
	else
		number.float64 = double_of_bits(bits);
	return number;
}

/* Truncates like a cast, clamped to 64 bits; NaN gives 0. */
static int64_t whole_value(double value)
{
	if (isnan(value))
		return 0;
	if (value >= 0x1p63)
		return INT64_MAX;
	return value < -0x1p63 ? INT64_MIN : (int64_t)value;
}

static bool is_double(enum proton_metric_type type)
{
	return type == PROTON_METRIC_DOUBLE || type == PROTON_METRIC_DOUBLE_VECTOR;
}

static bool is_scalar(enum proton_metric_type type)
{
	return type == PROTON_METRIC_INT64 || type == PROTON_METRIC_DOUBLE;
}

/* `words` has space for metric->count numbers of 64 bits. */
static struct proton_metric convert(const struct device_metric *metric, const void *bytes,
				    void *words)
{
	struct proton_metric out = {.type = metric->type, .count = metric->count};
	int64_t *int64s = words;
	double *float64s = words;
	uint32_t size = element_bytes(metric->element);

	for (uint32_t i = 0; i < metric->count; i++) {
		struct number number =
			read_element(metric->element, (const unsigned char *)bytes + i * size);

		if (is_double(metric->type) && metric->element == PROTON_ELEMENT_UINT64)
			float64s[i] = (double)(uint64_t)number.int64;
		else if (is_double(metric->type))
			float64s[i] = number.is_float ? number.float64 : (double)number.int64;
		else
			int64s[i] = number.is_float ? whole_value(number.float64) : number.int64;
	}
	if (metric->type == PROTON_METRIC_INT64)
		out.value.int64 = int64s[0];
	else if (metric->type == PROTON_METRIC_DOUBLE)
		out.value.float64 = float64s[0];
	else if (metric->type == PROTON_METRIC_INT64_VECTOR)
		out.value.int64s = int64s;
	else
		out.value.float64s = float64s;
	return out;
}

static void add_now(const struct device_metric *metric, const struct proton_metric *value)
{
	struct session_walk walk = {.sessions = metric->where.sessions, .lock = adding_lock};

	/* The store counts a value of a different type as lost. */
	while (session_walk(&walk))
		store_metric(&walk.session->store, session_context(walk.entry, metric->where),
			     walk.entry->epoch, metric->name, value, NULL);
}

void device_metric_add(const struct device_metric *metric, const struct proton_context *launch,
		       const void *bytes)
{
	union {
		int64_t int64s[INLINE_COUNT];
		double float64s[INLINE_COUNT];
	} inline_words = {0};
	void *words = &inline_words;
	struct proton_metric value;

	if (metric->count > INLINE_COUNT)
		words = calloc(metric->count, sizeof(int64_t));
	if (!words) {
		record_count(COUNTER_LOST_VALUE, 1);
		return;
	}
	value = convert(metric, bytes, words);
	if (launch) {
		struct captured_metric given = {
			.where = metric->where,
			.name = metric->name,
			.value = value,
		};

		captured_record_metrics(*launch, &(struct captured){
							 .where = metric->where,
							 .newest_serial = metric->newest_serial,
							 .metric_count = 1,
							 .metrics = &given,
						 });
	} else {
		add_now(metric, &value);
	}
	if (words != &inline_words)
		free(words);
}

void device_metric_release(const struct device_metric *metric)
{
	if (metric->release)
		metric->release(metric->user);
}

void device_metric_set_captured(struct device_metric *metric)
{
	metric->where = captured_path(metric->where);
	metric->newest_serial = session_newest_serial();
}

/* ------------------------------------------------------------------ the public call */

static int check_metric(const struct proton_device_metric *metric, struct proton_error *err)
{
	bool is_known = is_scalar(metric->type) || metric->type == PROTON_METRIC_INT64_VECTOR ||
			metric->type == PROTON_METRIC_DOUBLE_VECTOR;

	if (metric->size != sizeof(*metric))
		return err_set(err, PROTON_E_INVALID,
			       "proton_device_metric.size is %zu, this library expects %zu",
			       metric->size, sizeof(*metric));
	if (!metric->name || !*metric->name)
		return err_set(err, PROTON_E_INVALID, "a metric needs a name");
	if (!is_known || !element_bytes(metric->element))
		return err_set(err, PROTON_E_INVALID,
			       "metric %s: only numbers and vectors of numbers can be read "
			       "from device memory",
			       metric->name);
	if (!metric->address || !metric->count)
		return err_set(err, PROTON_E_INVALID, "metric %s has no value", metric->name);
	if (is_scalar(metric->type) && metric->count != 1)
		return err_set(err, PROTON_E_INVALID, "metric %s is a scalar but has %u elements",
			       metric->name, metric->count);
	return PROTON_OK;
}

/* The first backend in `config` that can read device memory; NULL if there is none. */
static const struct backend *reader_of(const struct config *config)
{
	struct session_walk walk = {.config = config, .lock = session_lock_entry};
	const struct backend *backend = NULL;

	while (session_walk(&walk))
		if (!backend && walk.session->backend->read_metric)
			backend = walk.session->backend;
	return backend;
}

int proton_metrics_add_device(struct proton_context where,
			      const struct proton_device_metric *metric, struct proton_error *err)
{
	const struct config *config = session_config_get(where.sessions);
	struct device_metric reading;

	TRY(check_metric(metric, err));
	reading = (struct device_metric){
		.where = where,
		.type = metric->type,
		.element = metric->element,
		.count = metric->count,
		.address = metric->address,
		.stream = metric->stream,
		.release = metric->release,
		.user = metric->user,
	};
	if (!config->count) {
		device_metric_release(&reading);
		return PROTON_OK;
	}
	if (metric->count > PROTON_DEVICE_METRIC_MAX_BYTES / element_bytes(metric->element))
		return err_set(err, PROTON_E_INVALID,
			       "metric %s: %u elements exceed the limit of %u bytes", metric->name,
			       metric->count, PROTON_DEVICE_METRIC_MAX_BYTES);
	reading.bytes = metric->count * element_bytes(metric->element);
	const struct backend *backend = reader_of(config);
	if (!backend)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "metric %s: device memory can be read only with a GPU backend",
			       metric->name);
	reading.name = metric_names_add(metric->name);
	if (reading.name == METRIC_NAME_NONE)
		return err_nomem(err);
	return backend->read_metric(&reading, err);
}
