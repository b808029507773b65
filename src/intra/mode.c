/* Parser for the instrumentation mode (`NAME[:KEY=VALUE]...`). */
#include "intra/mode.h"

#include <stdio.h>

#include "base/slice.h"
#include "intra/layout.h"

#define BUFFER_MAX_BYTES (1u << 26)
#define LAUNCHES_DEFAULT 8u
#define CTA_STRIDE_MAX (1u << 20)
#define BUDGET_DEFAULT 5u

struct choice {
	const char *name;
	uint32_t value;
};

enum {
	SAMPLE_NONE,
	SAMPLE_SELECTIVE
};
enum {
	OPTIMIZE_TIME_SHIFT = 1,
	OPTIMIZE_SCHED_BARRIERS = 2
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
	{"clock32", 0}, /* always: the decoder extends clocks of 32 bits */
	{"time_shift", OPTIMIZE_TIME_SHIFT},
	{"sched_stores", 0}, /* always: a scope in one block is stored at its end */
	{"sched_barriers", OPTIMIZE_SCHED_BARRIERS},
	{NULL, 0},
};
static const struct choice trees[] = {{"auto", INSTRUMENT_TREE_AUTO},
				      {"records", INSTRUMENT_TREE_RECORDS},
				      {"sums", INSTRUMENT_TREE_SUMS},
				      {NULL, 0}};
static const struct choice autos[] = {
	{"loads", INSTRUMENT_AUTO_LOADS},
	{"dots", INSTRUMENT_AUTO_DOTS},
	{"stores", INSTRUMENT_AUTO_STORES},
	{"waits", INSTRUMENT_AUTO_WAITS},
	{"loops", INSTRUMENT_AUTO_LOOPS},
	{"partitions", INSTRUMENT_AUTO_PARTITIONS},
	{"reduce", INSTRUMENT_AUTO_REDUCE},
	{"scan", INSTRUMENT_AUTO_SCAN},
	{"convert", INSTRUMENT_AUTO_CONVERT},
	{"local", INSTRUMENT_AUTO_LOCAL},
	{"tmem", INSTRUMENT_AUTO_TMEM},
	{"atomic", INSTRUMENT_AUTO_ATOMIC},
	{"call", INSTRUMENT_AUTO_CALL},
	{"asm", INSTRUMENT_AUTO_ASM},
	{"math", INSTRUMENT_AUTO_MATH},
	{"all", INSTRUMENT_AUTO_ALL},
	{NULL, 0},
};

enum {
	METRIC_TYPE,
	SAMPLING_STRATEGY,
	SAMPLING_OPTIONS,
	GRANULARITY,
	BUFFER_STRATEGY,
	BUFFER_TYPE,
	BUFFER_SIZE,
	OPTIMIZATIONS,
	AUTO,
	BUDGET,
	CTA,
	LAUNCHES,
	TREE,
	KEYS
};

static const struct key {
	const char *name;
	const char *what; /* in error messages */
	/* NULL: a number from `min` to `max` */
	const struct choice *choices;
	uint32_t min;
	uint32_t max;
	bool is_list; /* separated by commas; the value is a set of bits */
} keys[KEYS] = {
	[METRIC_TYPE] = {"metric_type", "metric_type", metric_types, 0, 0, false},
	[SAMPLING_STRATEGY] = {"sampling_strategy", "sampling_strategy", sampling_strategies, 0, 0,
			       false},
	[SAMPLING_OPTIONS] = {"sampling_options", "a warp of sampling_options", NULL, 0,
			      INSTRUMENT_UNIT_MAX - 1, true},
	[GRANULARITY] = {"granularity", "granularity", granularities, 0, 0, false},
	[BUFFER_STRATEGY] = {"buffer_strategy", "buffer_strategy", buffer_strategies, 0, 0, false},
	[BUFFER_TYPE] = {"buffer_type", "buffer_type", buffer_types, 0, 0, false},
	[BUFFER_SIZE] = {"buffer_size", "buffer_size (bytes)", NULL, 0, BUFFER_MAX_BYTES, false},
	[OPTIMIZATIONS] = {"optimizations", "optimization", optimizations, 0, 0, true},
	[AUTO] = {"auto", "automatic scope", autos, 0, 0, true},
	[BUDGET] = {"budget", "budget (percent of the kernel's time)", NULL, 1, 100, false},
	[CTA] = {"cta", "cta", NULL, 1, CTA_STRIDE_MAX, false},
	[LAUNCHES] = {"launches", "launches", NULL, 1, INSTRUMENT_LAUNCHES_ALL - 1, false},
	[TREE] = {"tree", "tree", trees, 0, 0, false},
};

struct reading {
	uint32_t values[KEYS];
	uint32_t seen; /* bits of keys */
	struct proton_error *err;
};

static int shown(struct slice word)
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

static int read_choice(struct reading *reading, const struct key *key, struct slice value,
		       uint32_t *out)
{
	char names[160] = "";
	size_t used = 0;

	if (key == &keys[BUFFER_STRATEGY] && slice_is(value, "flush"))
		return err_set(
			reading->err, PROTON_E_INVALID,
			"mode: buffer_strategy \"flush\" is not supported; use \"circular\", which "
			"keeps the latest records");
	for (const struct choice *choice = key->choices; choice->name; choice++) {
		if (slice_is(value, choice->name)) {
			*out = choice->value;
			return PROTON_OK;
		}
		used = list_name(names, sizeof(names), used, choice->name);
	}
	return err_set(reading->err, PROTON_E_INVALID,
		       "mode: unknown %s \"%.*s\"; expected one of %s", key->what, shown(value),
		       value.at, names);
}

static int read_number(struct reading *reading, const struct key *key, struct slice value,
		       uint32_t *out)
{
	struct slice rest = value;

	if (key == &keys[LAUNCHES] && slice_is(value, "all")) {
		*out = INSTRUMENT_LAUNCHES_ALL;
		return PROTON_OK;
	}
	if (key == &keys[BUDGET] && slice_is(value, "off")) {
		*out = 0;
		return PROTON_OK;
	}
	if (slice_take_number(&rest, key->max, out) && !rest.length && *out >= key->min)
		return PROTON_OK;
	if (key == &keys[BUDGET])
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: budget must be a percentage from %u to %u or \"off\", not "
			       "\"%.*s\"",
			       key->min, key->max, shown(value), value.at);
	if (key == &keys[LAUNCHES])
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: launches must be a positive number or \"all\", not \"%.*s\"",
			       shown(value), value.at);
	return err_set(reading->err, PROTON_E_INVALID,
		       "mode: %s must be a number from %u to %u, not \"%.*s\"", key->what, key->min,
		       key->max, shown(value), value.at);
}

static int read_value(struct reading *reading, const struct key *key, struct slice value)
{
	uint32_t *out = &reading->values[key - keys];
	int (*read)(struct reading *, const struct key *, struct slice, uint32_t *) =
		key->choices ? read_choice : read_number;
	int status = PROTON_OK;

	if (!key->is_list)
		return read(reading, key, value, out);
	while (value.length && status == PROTON_OK) {
		uint32_t one = 0;

		status = read(reading, key, slice_trim(slice_take_until(&value, ',')), &one);
		*out |= key->choices ? one : 1u << one % 32;
	}
	return status;
}

static int read_key(struct reading *reading, struct slice part)
{
	struct slice value = part;
	struct slice name = slice_trim(slice_take_until(&value, '='));
	char names[160] = "";
	size_t used = 0;

	if (name.length == part.length)
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: \"%.*s\" is not of the form key=value", shown(part), part.at);
	for (size_t i = 0; i < KEYS; i++) {
		used = list_name(names, sizeof(names), used, keys[i].name);
		if (!slice_is(name, keys[i].name))
			continue;
		if (reading->seen & 1u << i)
			return err_set(reading->err, PROTON_E_INVALID, "mode: %s is given twice",
				       keys[i].name);
		reading->seen |= 1u << i;
		return read_value(reading, &keys[i], slice_trim(value));
	}
	return err_set(reading->err, PROTON_E_INVALID,
		       "mode: unknown key \"%.*s\"; expected one of %s", shown(name), name.at,
		       names);
}

static int check(const struct reading *reading)
{
	const uint32_t *values = reading->values;
	bool is_selective = values[SAMPLING_STRATEGY] == SAMPLE_SELECTIVE;

	if (values[BUDGET] && !values[AUTO])
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: budget limits automatic scopes; select them with auto=, for "
			       "example auto=all");
	if (is_selective && !values[SAMPLING_OPTIONS])
		return err_set(
			reading->err, PROTON_E_INVALID,
			"mode: sampling_strategy=selective requires the warps to sample, for "
			"example sampling_options=0,1");
	if (!is_selective && values[SAMPLING_OPTIONS])
		return err_set(reading->err, PROTON_E_INVALID,
			       "mode: sampling_options requires sampling_strategy=selective");
	return PROTON_OK;
}

int instrument_mode_read(const char *text, struct instrument_mode *mode, struct proton_error *err)
{
	struct slice rest = slice_of(text ? text : "");
	struct slice name = slice_trim(slice_take_until(&rest, ':'));
	bool is_mma = slice_is(name, "mma");
	struct reading reading = {
		.values = {[GRANULARITY] = 1,
			   [BUFFER_TYPE] = INSTRUMENT_BUFFER_SHARED,
			   [AUTO] = is_mma ? INSTRUMENT_AUTO_DOTS : 0,
			   [CTA] = 1,
			   [LAUNCHES] = LAUNCHES_DEFAULT,
			   [TREE] = INSTRUMENT_TREE_AUTO},
		.err = err,
	};
	const uint32_t *values = reading.values;

	if (slice_find(name, "="))
		return err_set(
			err, PROTON_E_INVALID,
			"mode: \"%.*s\" is not a mode name; start with \"default:\" or \"mma:\"",
			shown(name), name.at);
	if (name.length && !is_mma && !slice_is(name, "default"))
		return err_set(err, PROTON_E_INVALID,
			       "unsupported mode: %.*s; available: \"default\", \"mma\"",
			       shown(name), name.at);
	while (rest.length) {
		struct slice part = slice_trim(slice_take_until(&rest, ':'));

		TRY(part.length ? read_key(&reading, part) : PROTON_OK);
	}
	/* "mma" is a mode of upstream, and has its dots as there. */
	if (!(reading.seen & 1u << BUDGET) && reading.seen & 1u << AUTO && values[AUTO])
		reading.values[BUDGET] = BUDGET_DEFAULT;
	*mode = (struct instrument_mode){
		.autos = values[AUTO],
		.budget = values[BUDGET],
		.warps_per_unit = values[GRANULARITY],
		.warps = values[SAMPLING_OPTIONS],
		.buffer = (enum instrument_buffer)values[BUFFER_TYPE],
		.buffer_bytes = values[BUFFER_SIZE],
		.cta_stride = values[CTA],
		.launches = values[LAUNCHES],
		.has_launches = reading.seen >> LAUNCHES & 1,
		.time_shift = values[OPTIMIZATIONS] & OPTIMIZE_TIME_SHIFT,
		.sched_barriers = values[OPTIMIZATIONS] & OPTIMIZE_SCHED_BARRIERS,
		.tree = (enum instrument_tree)values[TREE],
	};
	return check(&reading);
}

void instrument_mode_key(const struct instrument_mode *mode, struct out *out)
{
	out_printf(out, "unit%u-warps%llx-%s%u-cta%u", mode->warps_per_unit,
		   (unsigned long long)mode->warps,
		   mode->buffer == INSTRUMENT_BUFFER_SHARED ? "shared" : "global",
		   mode->buffer_bytes, mode->cta_stride);
	if (mode->sched_barriers)
		out_text(out, "-barriers");
	if (mode->tree != INSTRUMENT_TREE_AUTO)
		out_text(out, mode->tree == INSTRUMENT_TREE_SUMS ? "-sums" : "-records");
	if (mode->autos)
		out_printf(out, "-auto%x", mode->autos);
	if (mode->budget)
		out_printf(out, "-budget%u", mode->budget);
}
