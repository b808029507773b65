/* Parser for the instrumentation mode (`NAME[:KEY=VALUE]...`). */
#include "intra/mode.h"

#include <stdio.h>
#include <string.h>

#define BUFFER_MAX_BYTES (1u << 26)
#define CTA_STRIDE_MAX (1u << 20)

struct word {
	const char *at;
	size_t length;
};

struct choice {
	const char *name;
	uint32_t value;
};

enum {
	SAMPLE_NONE,
	SAMPLE_SELECTIVE
};
enum {
	OPTIMIZE_CLOCK32,
	OPTIMIZE_TIME_SHIFT,
	OPTIMIZE_SCHED_STORES,
	OPTIMIZE_SCHED_BARRIERS
};

static const struct choice metric_types[] = {{"cycle", 0}, {NULL, 0}};
static const struct choice sampling_strategies[] = {
	{"none", SAMPLE_NONE}, {"selective", SAMPLE_SELECTIVE}, {NULL, 0}};
static const struct choice buffer_strategies[] = {{"circular", 0}, {NULL, 0}};
static const struct choice buffer_types[] = {
	{"shared", INSTRUMENT_BUFFER_SHARED},
	{"global", INSTRUMENT_BUFFER_GLOBAL},
	{"shared_mem", INSTRUMENT_BUFFER_SHARED}, /* spelling of upstream's tutorial */
	{NULL, 0}};
/* A warp group is four warps, as on Hopper. */
static const struct choice granularities[] = {
	{"warp", 1},
	{"warp_2", 2},
	{"warp_4", 4},
	{"warp_8", 8},
	{"warp_group", 4},
	{"warp_group_2", 8},
	{"warp_group_4", 16},
	{"warp_group_8", INSTRUMENT_UNIT_MAX},
	{"cta", INSTRUMENT_UNIT_MAX},
	{NULL, 0},
};
static const struct choice optimizations[] = {
	{"clock32", OPTIMIZE_CLOCK32},
	{"time_shift", OPTIMIZE_TIME_SHIFT},
	{"sched_stores", OPTIMIZE_SCHED_STORES},
	{"sched_barriers", OPTIMIZE_SCHED_BARRIERS},
	{NULL, 0},
};
static const struct choice autos[] = {
	{"loads", INSTRUMENT_AUTO_LOADS},   {"dots", INSTRUMENT_AUTO_DOTS},
	{"stores", INSTRUMENT_AUTO_STORES}, {"waits", INSTRUMENT_AUTO_WAITS},
	{"loops", INSTRUMENT_AUTO_LOOPS},   {"partitions", INSTRUMENT_AUTO_PARTITIONS},
	{"all", INSTRUMENT_AUTO_ALL},       {NULL, 0},
};

/* Options that can be checked only after all keys have been read. */
struct reading {
	struct instrument_mode *mode;
	uint32_t sampling;
	bool has_options;
	struct proton_error *err;
};

/* ------------------------------------------------------------------ words */

static bool equals(struct word word, const char *text)
{
	return strlen(text) == word.length && memcmp(word.at, text, word.length) == 0;
}

/*
 * Removes the part of `rest` up to the next `separator`, and the separator, and returns that part.
 */
static struct word take_part(struct word *rest, char separator)
{
	const char *end = memchr(rest->at, separator, rest->length);
	struct word part = {rest->at, end ? (size_t)(end - rest->at) : rest->length};
	size_t taken = part.length + (end != NULL);

	rest->at += taken;
	rest->length -= taken;
	return part;
}

static struct word trim(struct word word)
{
	while (word.length && word.at[0] == ' ') {
		word.at++;
		word.length--;
	}
	while (word.length && word.at[word.length - 1] == ' ')
		word.length--;
	return word;
}

static int shown(struct word word)
{
	return word.length > 60 ? 60 : (int)word.length;
}

/* Appends ", NAME" to the list in `names`; returns its new length. */
static size_t list_name(char *names, size_t capacity, size_t used, const char *name)
{
	if (used < capacity)
		used += (size_t)snprintf(names + used, capacity - used, "%s%s", used ? ", " : "",
					 name);
	return used;
}

static int refuse(struct reading *reading, const char *key, struct word value,
		  const struct choice *choices)
{
	char names[160] = "";
	size_t used = 0;

	for (; choices->name; choices++)
		used = list_name(names, sizeof(names), used, choices->name);
	return err_set(reading->err, PROTON_E_INVALID,
		       "mode: unknown %s \"%.*s\"; expected one of %s", key, shown(value), value.at,
		       names);
}

static int choose(struct reading *reading, const char *key, struct word value,
		  const struct choice *choices, uint32_t *out)
{
	for (const struct choice *choice = choices; choice->name; choice++)
		if (equals(value, choice->name)) {
			*out = choice->value;
			return PROTON_OK;
		}
	return refuse(reading, key, value, choices);
}

static bool is_number(struct word value, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t number = 0;

	for (size_t i = 0; i < value.length; i++) {
		if (value.at[i] < '0' || value.at[i] > '9' || number > max)
			return false;
		number = number * 10 + (uint64_t)(value.at[i] - '0');
	}
	*out = (uint32_t)number;
	return value.length > 0 && number >= min && number <= max;
}

static int read_number(struct reading *reading, const char *key, struct word value, uint32_t min,
		       uint32_t max, uint32_t *out)
{
	uint32_t number;

	if (!is_number(value, min, max, &number))
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: %s must be a number from %u to %u, not \"%.*s\"", key, min,
			       max, shown(value), value.at);
	*out = number;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ keys */

static int read_metric_type(struct reading *reading, struct word value)
{
	uint32_t unused;

	return choose(reading, "metric_type", value, metric_types, &unused);
}

static int read_sampling_strategy(struct reading *reading, struct word value)
{
	return choose(reading, "sampling_strategy", value, sampling_strategies, &reading->sampling);
}

static int read_sampling_options(struct reading *reading, struct word value)
{
	reading->has_options = value.length > 0;
	while (value.length) {
		struct word part = trim(take_part(&value, ','));
		uint32_t warp;
		int status = read_number(reading, "a warp of sampling_options", part, 0,
					 INSTRUMENT_UNIT_MAX - 1, &warp);

		if (status != PROTON_OK)
			return status;
		reading->mode->warps |= 1ull << warp;
	}
	return PROTON_OK;
}

static int read_granularity(struct reading *reading, struct word value)
{
	return choose(reading, "granularity", value, granularities, &reading->mode->warps_per_unit);
}

static int read_buffer_strategy(struct reading *reading, struct word value)
{
	uint32_t unused;

	if (equals(value, "flush"))
		return err_set(
			reading->err, PROTON_E_INVALID,
			"mode: buffer_strategy \"flush\" is not supported; use \"circular\", which "
			"keeps the latest records");
	return choose(reading, "buffer_strategy", value, buffer_strategies, &unused);
}

static int read_buffer_type(struct reading *reading, struct word value)
{
	uint32_t type;
	int status = choose(reading, "buffer_type", value, buffer_types, &type);

	if (status == PROTON_OK)
		reading->mode->buffer = (enum instrument_buffer)type;
	return status;
}

static int read_buffer_size(struct reading *reading, struct word value)
{
	return read_number(reading, "buffer_size (bytes)", value, 0, BUFFER_MAX_BYTES,
			   &reading->mode->buffer_bytes);
}

static int read_optimizations(struct reading *reading, struct word value)
{
	struct instrument_mode *mode = reading->mode;

	while (value.length) {
		uint32_t which;
		int status = choose(reading, "optimization", trim(take_part(&value, ',')),
				    optimizations, &which);

		if (status != PROTON_OK)
			return status;
		mode->clock32 |= which == OPTIMIZE_CLOCK32;
		mode->time_shift |= which == OPTIMIZE_TIME_SHIFT;
		mode->sched_stores |= which == OPTIMIZE_SCHED_STORES;
		mode->sched_barriers |= which == OPTIMIZE_SCHED_BARRIERS;
	}
	return PROTON_OK;
}

static int read_auto(struct reading *reading, struct word value)
{
	while (value.length) {
		uint32_t bits = 0;
		int status = choose(reading, "automatic scope", trim(take_part(&value, ',')), autos,
				    &bits);

		if (status != PROTON_OK)
			return status;
		reading->mode->autos |= bits;
	}
	return PROTON_OK;
}

static int read_cta(struct reading *reading, struct word value)
{
	return read_number(reading, "cta", value, 1, CTA_STRIDE_MAX, &reading->mode->cta_stride);
}

static int read_launches(struct reading *reading, struct word value)
{
	uint32_t launches;

	reading->mode->has_launches = true;
	if (equals(value, "all")) {
		reading->mode->launches = INSTRUMENT_LAUNCHES_ALL;
		return PROTON_OK;
	}
	if (!is_number(value, 1, INSTRUMENT_LAUNCHES_ALL - 1, &launches))
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: launches must be a positive number or \"all\", not \"%.*s\"",
			       shown(value), value.at);
	reading->mode->launches = launches;
	return PROTON_OK;
}

static const struct {
	const char *name;
	int (*read)(struct reading *reading, struct word value);
} keys[] = {
	{"metric_type", read_metric_type},
	{"sampling_strategy", read_sampling_strategy},
	{"sampling_options", read_sampling_options},
	{"granularity", read_granularity},
	{"buffer_strategy", read_buffer_strategy},
	{"buffer_type", read_buffer_type},
	{"buffer_size", read_buffer_size},
	{"optimizations", read_optimizations},
	{"auto", read_auto},
	{"cta", read_cta},
	{"launches", read_launches},
};
#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static int refuse_key(struct reading *reading, struct word name)
{
	char names[160] = "";
	size_t used = 0;

	for (size_t i = 0; i < KEY_COUNT; i++)
		used = list_name(names, sizeof(names), used, keys[i].name);
	return err_set(reading->err, PROTON_E_INVALID,
		       "mode: unknown key \"%.*s\"; expected one of %s", shown(name), name.at,
		       names);
}

static int read_key(struct reading *reading, struct word part, uint32_t *seen)
{
	struct word value = part;
	struct word name = trim(take_part(&value, '='));

	if (name.length == part.length)
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: \"%.*s\" is not of the form key=value", shown(part), part.at);
	for (size_t i = 0; i < KEY_COUNT; i++) {
		if (!equals(name, keys[i].name))
			continue;
		if (*seen & 1u << i)
			return err_set(reading->err, PROTON_E_INVALID, "mode: %s is given twice",
				       keys[i].name);
		*seen |= 1u << i;
		return keys[i].read(reading, trim(value));
	}
	return refuse_key(reading, name);
}

/* ------------------------------------------------------------------ the mode */

static int check_sampling(const struct reading *reading)
{
	if (reading->sampling == SAMPLE_SELECTIVE && !reading->has_options)
		return err_set(
			reading->err, PROTON_E_INVALID,
			"mode: sampling_strategy=selective requires the warps to sample, for "
			"example sampling_options=0,1");
	if (reading->sampling == SAMPLE_NONE && reading->has_options)
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: sampling_options requires sampling_strategy=selective");
	return PROTON_OK;
}

int instrument_mode_read(const char *text, struct instrument_mode *mode, struct proton_error *err)
{
	struct word rest = {text ? text : "", text ? strlen(text) : 0};
	struct word name = trim(take_part(&rest, ':'));
	struct reading reading = {.mode = mode, .err = err};
	uint32_t seen = 0;

	*mode = (struct instrument_mode){
		.warps_per_unit = 1,
		.buffer = INSTRUMENT_BUFFER_SHARED,
		.cta_stride = 1,
		.launches = INSTRUMENT_LAUNCHES_DEFAULT,
	};
	mode->is_mma = equals(name, "mma");
	if (memchr(name.at, '=', name.length))
		return err_set(
			err, PROTON_E_INVALID,
			"mode: \"%.*s\" is not a mode name; start with \"default:\" or \"mma:\"",
			shown(name), name.at);
	if (name.length && !mode->is_mma && !equals(name, "default"))
		return err_set(err, PROTON_E_INVALID,
			       "unsupported mode: %.*s; available: \"default\", \"mma\"",
			       shown(name), name.at);
	if (mode->is_mma)
		mode->autos = INSTRUMENT_AUTO_DOTS;
	while (rest.length) {
		struct word part = trim(take_part(&rest, ':'));
		int status = part.length ? read_key(&reading, part, &seen) : PROTON_OK;

		if (status != PROTON_OK)
			return status;
	}
	return check_sampling(&reading);
}

void instrument_mode_options(const struct instrument_mode *mode, struct instrument_options *options)
{
	options->buffer = mode->buffer;
	options->buffer_bytes = mode->buffer_bytes;
	options->warps_per_unit = mode->warps_per_unit;
	options->warps = mode->warps;
	options->cta_stride = mode->cta_stride;
	options->sched_barriers = mode->sched_barriers;
}

void instrument_mode_key(const struct instrument_mode *mode, struct out *out)
{
	out_printf(out, "unit%u-warps%llx-%s%u-cta%u", mode->warps_per_unit,
		   (unsigned long long)mode->warps,
		   mode->buffer == INSTRUMENT_BUFFER_SHARED ? "shared" : "global",
		   mode->buffer_bytes, mode->cta_stride);
	if (mode->sched_barriers)
		out_text(out, "-barriers");
	if (mode->autos)
		out_printf(out, "-auto%x", mode->autos);
}
