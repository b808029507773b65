/* Raw metrics: names, labels and values of the metrics stored in a profile. */
#include "viewer/query/raw_metrics.h"

#include <inttypes.h>

#include "model/estimates.h"
#include "viewer/print/xalloc.h"

#define KERNEL_TIME "time (ns)"
#define KERNEL_COUNT_NAME "count"
#define DEVICE_ID "device_id"
#define DEVICE_TYPE "device_type"
#define LAUNCH_CONFIG "launch_config"
#define MANY 64u

/* The length of a label without its unit: "time (ns)" -> 4. */
static size_t bare_length(const char *label)
{
	const char *paren = strrchr(label, '(');
	size_t length = strlen(label);

	if (!paren || paren == label || label[length - 1] != ')')
		return length;
	length = (size_t)(paren - label);
	while (length > 1 && label[length - 1] == ' ')
		length--;
	return length;
}

void metrics_lower_case(char *text)
{
	for (; *text; text++) {
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text + ('a' - 'A'));
	}
}

static void add_raw_metric(struct metrics *metrics, const char *label, struct raw_metric model)
{
	uint32_t number = (uint32_t)metrics->count + 1;

	model.label = xstrdup(label);
	model.name = xstrndup(label, bare_length(label));
	metrics_lower_case(model.name);
	XADD(metrics->raws, metrics->count, model);
	if (!hash_table_add(&metrics->by_text, hash_stored(label, strlen(label)), number) ||
	    !hash_table_add(&metrics->by_text, hash_stored(model.name, strlen(model.name)), number))
		xgive_up();
}

static void add_kernel_metrics(struct metrics *metrics)
{
	const struct profile *profile = metrics->profile;
	struct raw_metric raw = {.source = RAW_NUMBER, .metric = METRIC_NONE, .is_inclusive = true};

	if (profile->kernel_count <= 1)
		return;
	add_raw_metric(metrics, KERNEL_TIME, raw);
	add_raw_metric(metrics, KERNEL_COUNT_NAME, raw);
	for (size_t i = 1; i < profile->kernel_count && !metrics->has_kernel_range; i++)
		metrics->has_kernel_range = profile->kernels[i].min_ns != KERNEL_TIME_UNKNOWN;
}

void metrics_init(struct metrics *metrics, const struct profile *profile)
{
	struct raw_metric device_id = {.source = RAW_DEVICE_ID, .metric = METRIC_NONE};
	struct raw_metric device_type = {.source = RAW_DEVICE_TYPE, .metric = METRIC_NONE};
	bool has_kernels = profile->kernel_count > 1;

	*metrics = (struct metrics){.profile = profile};
	add_kernel_metrics(metrics);
	for (size_t i = 0; i < profile->metric_count; i++) {
		const struct row_metric *metric = &profile->metrics[i];
		const char *label = profile_text(profile, metric->name);
		bool is_number = metric->type == PROTON_METRIC_INT64 ||
				 metric->type == PROTON_METRIC_DOUBLE;
		struct raw_metric raw = {.source = RAW_TEXT, .metric = (uint32_t)i};

		if (is_number) {
			raw.source = RAW_NUMBER;
			/* Intervals of sums follow from those of the parts. */
			raw.is_inclusive =
				!(metric->flags & (METRIC_EXCLUSIVE | METRIC_PROPERTY)) ||
				strcmp(label, ESTIMATES_INTERVAL) == 0;
		}
		if (strcmp(label, ESTIMATES_METRIC) == 0)
			continue;
		/* If kernels have the metric too, both are one metric. */
		if (has_kernels && is_number &&
		    (strcmp(label, KERNEL_TIME) == 0 || strcmp(label, KERNEL_COUNT_NAME) == 0))
			continue;
		if (has_kernels && strcmp(label, DEVICE_ID) == 0)
			device_id.metric = raw.metric;
		else if (has_kernels && strcmp(label, DEVICE_TYPE) == 0)
			device_type.metric = raw.metric;
		else
			add_raw_metric(metrics, label, raw);
	}
	if (has_kernels) {
		add_raw_metric(metrics, DEVICE_ID, device_id);
		add_raw_metric(metrics, DEVICE_TYPE, device_type);
	}
	/* Index 0 is unused. A metric of the program with this name takes precedence. */
	if (profile->config_count > 1 && !metrics_find(metrics, LAUNCH_CONFIG))
		add_raw_metric(metrics, LAUNCH_CONFIG,
			       (struct raw_metric){.source = RAW_LAUNCH_CONFIG,
						   .metric = METRIC_NONE});
	if (metrics->count > MANY && !value_index_init(&metrics->values, profile))
		xgive_up();
}

void metrics_fini(struct metrics *metrics)
{
	for (size_t i = 0; i < metrics->count; i++) {
		free(metrics->raws[i].name);
		free(metrics->raws[i].label);
	}
	free(metrics->raws);
	hash_table_fini(&metrics->by_text);
	value_index_fini(&metrics->values);
	*metrics = (struct metrics){0};
}

/* The first metric with that label or name. */
static const struct raw_metric *find_raw_metric(const struct metrics *metrics, const char *text,
						bool by_label)
{
	uint64_t hash = hash_stored(text, strlen(text));
	uint64_t at = hash;
	uint32_t first = UINT32_MAX;
	uint32_t number;

	while ((number = hash_table_next(&metrics->by_text, hash, &at)) != 0) {
		const struct raw_metric *raw = &metrics->raws[number - 1];

		if (number < first && strcmp(by_label ? raw->label : raw->name, text) == 0)
			first = number;
	}
	return first == UINT32_MAX ? NULL : &metrics->raws[first - 1];
}

const struct raw_metric *metrics_find(const struct metrics *metrics, const char *name)
{
	const struct raw_metric *found = find_raw_metric(metrics, name, true);

	if (found)
		return found;
	AUTO_FREE char *bare = xstrndup(name, bare_length(name));
	metrics_lower_case(bare);
	return find_raw_metric(metrics, bare, false);
}

bool metrics_has_number(const struct metrics *metrics, const char *name)
{
	const struct raw_metric *raw = metrics_find(metrics, name);

	return raw && raw->source == RAW_NUMBER;
}

struct column metrics_column(const struct metrics *metrics, const struct raw_metric *raw,
			     bool is_inclusive)
{
	struct column column;

	if (rollup_metric_indexed(metrics->profile, metrics->count > MANY ? &metrics->values : NULL,
				  raw->label, is_inclusive, &column, NULL))
		xgive_up(); /* the name exists, so memory ran out */
	return column;
}

double metrics_own_number(const struct metrics *metrics, const struct raw_metric *raw,
			  uint32_t node)
{
	const struct profile *profile = metrics->profile;
	const struct profile_value *values = profile->values;

	for (uint32_t i = profile->nodes[node].first_value; i; i = values[i].next) {
		if (values[i].metric != raw->metric)
			continue;
		return profile->metrics[raw->metric].type == PROTON_METRIC_INT64
			       ? (double)values[i].as.int64
			       : values[i].as.float64;
	}
	return 0;
}

/* Each device (or device type) of a node once, in order of appearance: "0,1". */
static void write_devices(struct out *out, const struct metrics *metrics, enum raw_source source,
			  uint32_t first)
{
	const struct profile *profile = metrics->profile;
	const struct profile_kernel *kernels = profile->kernels;

	for (uint32_t i = first; i; i = kernels[i].next) {
		const struct row_device *device = &profile->devices[kernels[i].device];
		bool is_known = false;

		for (uint32_t k = first; k != i && !is_known; k = kernels[k].next) {
			const struct row_device *other = &profile->devices[kernels[k].device];

			is_known = source == RAW_DEVICE_ID ? other->id == device->id
							   : other->type == device->type;
		}
		if (is_known)
			continue;
		if (i != first)
			out_byte(out, ',');
		if (source == RAW_DEVICE_ID)
			out_u64(out, device->id);
		else
			out_text(out, profile_text(profile, device->type));
	}
}

static void write_vector(struct out *out, const uint64_t *words, bool is_integer)
{
	out_byte(out, '[');
	for (uint64_t i = 1; i <= words[0]; i++) {
		double number;

		if (i > 1)
			out_text(out, ", ");
		memcpy(&number, &words[i], sizeof(number));
		if (is_integer)
			out_i64(out, (int64_t)words[i]);
		else
			out_printf(out, "%.6g", number);
	}
	out_byte(out, ']');
}

static void write_value(struct out *out, const struct profile *profile,
			const struct profile_value *value)
{
	switch (profile->metrics[value->metric].type) {
	case PROTON_METRIC_INT64:
		out_i64(out, value->as.int64);
		break;
	case PROTON_METRIC_DOUBLE:
		out_printf(out, "%.6g", value->as.float64);
		break;
	case PROTON_METRIC_STRING:
		out_bytes(out, profile_text(profile, value->as.string),
			  string_length(&profile->strings, value->as.string));
		break;
	case PROTON_METRIC_INT64_VECTOR:
		write_vector(out, &profile->words[value->as.vector], true);
		break;
	case PROTON_METRIC_DOUBLE_VECTOR:
		write_vector(out, &profile->words[value->as.vector], false);
		break;
	}
}

/* ------------------------------------------------------------------ launch configurations */

/* "8", "(8,2)" or "(8,1,2)": trailing dimensions of 1 are omitted. */
static void write_dimensions(struct out *out, const uint32_t size[3])
{
	if (size[1] <= 1 && size[2] <= 1)
		out_u64(out, size[0]);
	else if (size[2] <= 1)
		out_printf(out, "(%" PRIu32 ",%" PRIu32 ")", size[0], size[1]);
	else
		out_printf(out, "(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")", size[0], size[1], size[2]);
}

static void write_config(struct out *out, const struct launch_config *config)
{
	uint64_t shared = shared_bytes_of(config);

	out_text(out, "<<<");
	write_dimensions(out, config->grid);
	out_byte(out, ',');
	write_dimensions(out, config->block);
	out_printf(out, ">>> %" PRIu32 " regs", config->registers_per_thread);
	if (shared >= 1024 * 1024)
		out_printf(out, " %.4g MiB shared", (double)shared / (1024 * 1024));
	else if (shared >= 1024)
		out_printf(out, " %.4g KiB shared", (double)shared / 1024);
	else if (shared)
		out_printf(out, " %" PRIu64 " B shared", shared);
}

/*
 * As written in CUDA C. A kernel with several configurations shows the one with the longest total
 * time, and the number of others: "<<<GRID,BLOCK>>> R regs S shared +N".
 */
static void write_launch_config(struct out *out, const struct profile *profile, uint32_t node)
{
	const struct profile_kernel *kernels = profile->kernels;
	const struct row_config *longest = NULL;
	uint64_t all = 0;
	bool has_others = false;

	for (uint32_t k = profile->nodes[node].first_kernel; k; k = kernels[k].next) {
		for (uint32_t c = kernels[k].first_config; c; c = profile->configs[c].next) {
			const struct row_config *config = &profile->configs[c];

			all++;
			if (config->flags & CONFIG_OTHER)
				has_others = true;
			else if (!longest || config->total_ns > longest->total_ns)
				longest = config;
		}
	}
	if (!longest)
		return;
	write_config(out, &longest->config);
	if (all > 1)
		out_printf(out, " +%" PRIu64 "%s", all - 1, has_others ? " or more" : "");
}

void metrics_text(struct out *out, const struct metrics *metrics, const struct raw_metric *raw,
		  uint32_t node)
{
	const struct profile *profile = metrics->profile;
	const struct profile_value *values = profile->values;

	if (raw->source == RAW_LAUNCH_CONFIG) {
		write_launch_config(out, profile, node);
		return;
	}
	if (raw->source != RAW_TEXT && profile->nodes[node].first_kernel) {
		write_devices(out, metrics, raw->source, profile->nodes[node].first_kernel);
		return;
	}
	for (uint32_t i = profile->nodes[node].first_value; i; i = values[i].next) {
		if (values[i].metric == raw->metric) {
			write_value(out, profile, &values[i]);
			return;
		}
	}
}

double metrics_unit_ns(const char *label)
{
	const char *unit = label + bare_length(label);

	while (*unit == ' ')
		unit++;
	if (strcmp(unit, "(us)") == 0)
		return 1e3;
	if (strcmp(unit, "(ms)") == 0)
		return 1e6;
	return strcmp(unit, "(s)") == 0 ? 1e9 : 1;
}
