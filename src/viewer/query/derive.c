/* Derived metrics: one table of formulas. */
#include "viewer/query/derive.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "base/array.h"
#include "base/strings.h"
#include "model/ranks.h"
#include "model/rollup.h"
#include "viewer/numbers/bound.h"
#include "viewer/numbers/utilization.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"

enum formula_kind {
	FORMULA_TIME,     /* source in another unit */
	FORMULA_INTERVAL, /* the same, of a metric that is not additive */
	FORMULA_AVERAGE,  /* source / C */
	FORMULA_MIN,      /* from kernel rows */
	FORMULA_MAX,
	FORMULA_P50, /* from histograms */
	FORMULA_P90,
	FORMULA_P99,
	FORMULA_RATE, /* source / T */
	FORMULA_UTIL,
	FORMULA_UNIT_UTIL, /* this and the next three: one unit of the GPU */
	FORMULA_UNIT_UTIL_LAST = FORMULA_UNIT_UTIL + BOUND_LATENCY - 1,
	FORMULA_BOUND,
	FORMULA_OCCUPANCY, /* source / launches with counters */
	FORMULA_SLOWEST,   /* this and the next two compare ranks */
	FORMULA_SLOWEST_RANK,
	FORMULA_IMBALANCE,
};

struct formula {
	const char *name;
	const char *family; /* of formulas that differ only in their unit */
	enum formula_kind kind;
	const char *source; /* raw metric */
	double unit;        /* divisor of the result: ns, or flop and bytes */
};

/* Rows of the table, which clang-format would format as blocks. */
/* clang-format off */
#define TIMES(family, kind, source)                                                                \
	{family "/s", family, kind, source, 1e9},                                                  \
	{family "/ms", family, kind, source, 1e6},                                                 \
	{family "/us", family, kind, source, 1e3},                                                 \
	{family "/ns", family, kind, source, 1}
#define RATES(family, source)                                                                      \
	{family "/s", family, FORMULA_RATE, source, 1},                                            \
	{"g" family "/s", family, FORMULA_RATE, source, 1e9},                                      \
	{"t" family "/s", family, FORMULA_RATE, source, 1e12}
/* clang-format on */

static const struct formula formulas[] = {
	TIMES("time", FORMULA_TIME, "time"),
	TIMES("time_ci", FORMULA_INTERVAL, "time_ci"),
	TIMES("avg_time", FORMULA_AVERAGE, "time"),
	TIMES("min_time", FORMULA_MIN, "time"),
	TIMES("max_time", FORMULA_MAX, "time"),
	TIMES("p50_time", FORMULA_P50, "time"),
	TIMES("p90_time", FORMULA_P90, "time"),
	TIMES("p99_time", FORMULA_P99, "time"),
	TIMES("cpu_time", FORMULA_TIME, "cpu_time"),
	TIMES("avg_cpu_time", FORMULA_AVERAGE, "cpu_time"),
	RATES("flop", "flops"),
	RATES("flop4", "flops4"),
	RATES("flop8", "flops8"),
	RATES("flop16", "flops16"),
	RATES("flop32", "flops32"),
	RATES("flop64", "flops64"),
	RATES("byte", "bytes"),
	{"memory_byte/s", "memory_byte", FORMULA_RATE, "memory_bytes", 1},
	{"memory_gbyte/s", "memory_byte", FORMULA_RATE, "memory_bytes", 1e9},
	{"memory_tbyte/s", "memory_byte", FORMULA_RATE, "memory_bytes", 1e12},
	{"dram_gbyte/s", "dram_byte", FORMULA_RATE, "counter_bytes", 1e9},
	{"dram_tbyte/s", "dram_byte", FORMULA_RATE, "counter_bytes", 1e12},
	{"l2_gbyte/s", "l2_byte", FORMULA_RATE, "counter_l2_bytes", 1e9},
	{"l2_tbyte/s", "l2_byte", FORMULA_RATE, "counter_l2_bytes", 1e12},
	{"util", "util", FORMULA_UTIL, "time", 1},
	{"tensor_util", "tensor_util", FORMULA_UNIT_UTIL + BOUND_TENSOR, "time", 1},
	{"vector_util", "vector_util", FORMULA_UNIT_UTIL + BOUND_VECTOR, "time", 1},
	{"memory_util", "memory_util", FORMULA_UNIT_UTIL + BOUND_MEMORY, "time", 1},
	{"l2_util", "l2_util", FORMULA_UNIT_UTIL + BOUND_L2, "time", 1},
	{"bound", "bound", FORMULA_BOUND, "time", 1},
	{"occupancy", "occupancy", FORMULA_OCCUPANCY, "counter_warps", 1},
	TIMES("slowest", FORMULA_SLOWEST, "time"),
	{"slowest_rank", "slowest_rank", FORMULA_SLOWEST_RANK, "time", 1},
	{"imbalance/%", "imbalance", FORMULA_IMBALANCE, "time", 1},
};

void metric_column_fini(struct metric_column *column)
{
	FREE_ALL(column->name, column->values, column->exact, column->word);
	*column = (struct metric_column){0};
}

double metric_column_whole(const struct metric_column *column, size_t node_count)
{
	double sum = 0;

	for (size_t i = 0; !column->is_inclusive && i < node_count; i++)
		sum += isfinite(column->values[i]) ? column->values[i] : 0;
	return column->is_inclusive ? column->values[0] : sum;
}

/* Work that counters have measured, which a rate shows where none was given; NULL: none. */
static const struct raw_metric *find_counted(const struct metrics *metrics,
					     const struct formula *formula)
{
	char name[32];

	if (strncmp(formula->source, "counter_", 8) == 0)
		snprintf(name, sizeof(name), "%s", formula->source);
	else if (strncmp(formula->source, "flops", 5) == 0 || strcmp(formula->source, "bytes") == 0)
		snprintf(name, sizeof(name), "counter_%s", formula->source);
	else
		return NULL;
	return metrics_has_number(metrics, name) ? metrics_find(metrics, name) : NULL;
}

static bool is_available(const struct metrics *metrics, const struct formula *formula)
{
	switch (formula->kind) {
	case FORMULA_TIME:
	case FORMULA_INTERVAL:
		return metrics_has_number(metrics, formula->source);
	case FORMULA_AVERAGE:
		return metrics_has_number(metrics, formula->source) &&
		       metrics_has_number(metrics, "count");
	case FORMULA_MIN:
	case FORMULA_MAX:
	case FORMULA_P50:
	case FORMULA_P90:
	case FORMULA_P99:
		return metrics->has_kernel_range;
	case FORMULA_RATE:
		return (metrics_has_number(metrics, formula->source) ||
			find_counted(metrics, formula)) &&
		       metrics_has_number(metrics, "time");
	case FORMULA_OCCUPANCY:
		return metrics_has_number(metrics, formula->source);
	case FORMULA_SLOWEST:
	case FORMULA_SLOWEST_RANK:
	case FORMULA_IMBALANCE:
		return metrics->profile->ranks && metrics->profile->ranks->spread_count > 1;
	default: /* util, and its parts */
		return util_is_possible(metrics);
	}
}

/* A column that is made. */
struct derive {
	const struct metrics *metrics;
	size_t node_count;
	bool own_only;
};

/* The values of a raw metric: summed over subtrees if it is inclusive. */
static void take_raw(const struct derive *derive, const struct raw_metric *raw,
		     struct metric_column *column)
{
	struct column numbers =
		metrics_column(derive->metrics, raw, raw->is_inclusive && !derive->own_only);

	column->values = numbers.value;
	column->exact = numbers.exact;
	column->is_inclusive = raw->is_inclusive;
	column->source = raw;
	column->divisor = 1;
}

static double *rolled_up(const struct derive *derive, const struct raw_metric *raw)
{
	struct column numbers = metrics_column(derive->metrics, raw, true);

	free(numbers.exact);
	return numbers.value;
}

static void drop_exact(struct metric_column *column)
{
	free(column->exact);
	column->exact = NULL;
}

static void scale_column(const struct derive *derive, struct metric_column *column, double divisor)
{
	column->divisor = divisor;
	if (divisor == 1)
		return;
	drop_exact(column);
	for (size_t i = 0; i < derive->node_count; i++)
		column->values[i] /= divisor;
}

/*
 * Divides by a raw metric in units of `unit`. Infinite results (work without time) become NAN,
 * which is not shown.
 */
static void divide_column(const struct derive *derive, struct metric_column *column,
			  const struct raw_metric *divisor, double unit)
{
	AUTO_FREE double *divisors = rolled_up(derive, divisor);

	drop_exact(column);
	for (size_t i = 0; i < derive->node_count; i++)
		column->values[i] = divisors[i] == 0 ? NAN
						     : column->values[i] / (divisors[i] / unit);
}

static void add_up(const struct profile *profile, double *values)
{
	for (size_t i = profile->node_count; i-- > 1;) {
		double *parent = &values[profile->nodes[i].parent];

		if (isfinite(values[i]))
			*parent = isfinite(*parent) ? *parent + values[i] : values[i];
	}
}

/* The work of all launches: one without counters is as the others of the node. */
static struct column counted_work(const struct derive *derive, const struct raw_metric *counted)
{
	const struct raw_metric *of_launches = metrics_find(derive->metrics, "counter_launches");
	struct column work = metrics_column(derive->metrics, counted, false);
	struct column count, launches;

	if (!of_launches || !metrics_has_number(derive->metrics, "count"))
		return work;
	count = metrics_column(derive->metrics, metrics_find(derive->metrics, "count"), false);
	launches = metrics_column(derive->metrics, of_launches, false);
	for (size_t i = 0; i < derive->node_count; i++)
		if (launches.value[i] > 0 && count.value[i] > 0)
			work.value[i] *= count.value[i] / launches.value[i];
	column_fini(&count);
	column_fini(&launches);
	return work;
}

/* Given work, and counted work in nodes without any. `given` may be NULL. */
static void take_work(const struct derive *derive, const struct raw_metric *given,
		      const struct raw_metric *counted, struct metric_column *column)
{
	struct column work = counted_work(derive, counted);
	struct column known = {0};

	if (given && given != counted)
		known = metrics_column(derive->metrics, given, false);
	for (size_t i = 0; i < derive->node_count && known.value; i++)
		if (isfinite(known.value[i]) && known.value[i] != 0)
			work.value[i] = known.value[i];
	column_fini(&known);
	free(work.exact);
	if (!derive->own_only)
		add_up(derive->metrics->profile, work.value);
	column->values = work.value;
	column->is_inclusive = true;
	column->source = given ? given : counted;
	column->divisor = 1;
}

/* The share of one unit's peak rate, or the word for what limits the kernel, in each node. */
static void take_bound(const struct derive *derive, enum formula_kind kind,
		       struct metric_column *column)
{
	struct bound_shares shares;
	struct util util;

	util_init(&util, derive->metrics);
	util_report_unknown(&util);
	if (kind == FORMULA_BOUND) {
		column->words = bound_words;
		column->word = xcalloc(derive->node_count, sizeof(*column->word));
	} else {
		column->values = xcalloc(derive->node_count, sizeof(*column->values));
	}
	for (uint32_t i = 0; i < derive->node_count; i++) {
		enum bound bound = kind == FORMULA_BOUND ? bound_of_node(&util, i) : BOUND_COUNT;

		if (column->word)
			column->word[i] = bound < BOUND_COUNT ? bound : WORD_NONE;
		else if (bound_shares_of_node(&util, i, &shares))
			column->values[i] = shares.of[kind - FORMULA_UNIT_UTIL];
		else
			column->values[i] = NAN;
	}
	util_fini(&util);
}

static double *utilization(const struct derive *derive)
{
	double *values = xcalloc(derive->node_count, sizeof(*values));
	AT_END(util_fini) struct util util;

	util_init(&util, derive->metrics);
	util_report_unknown(&util);
	util_report_differences(&util);
	for (size_t i = 0; i < derive->node_count; i++)
		values[i] = util_of_node(&util, (uint32_t)i);
	return values;
}

/* Times of single runs of the kernels in each subtree, in ns. */
static double *times_of_runs(const struct derive *derive, enum formula_kind kind)
{
	const struct profile *profile = derive->metrics->profile;
	double share = kind == FORMULA_P50 ? 0.5 : kind == FORMULA_P90 ? 0.9 : 0.99;
	struct column column;

	if (kind == FORMULA_MIN || kind == FORMULA_MAX
		    ? rollup_extreme(profile, kind == FORMULA_MIN, &column, NULL)
		    : rollup_percentile(profile, share, &column, NULL))
		xgive_up();
	return column.value;
}

/* The slowest rank in each node. */
static void take_ranks(const struct derive *derive, enum formula_kind kind,
		       struct metric_column *column)
{
	column->values = xcalloc(derive->node_count, sizeof(*column->values));
	column->is_inclusive = true;
	if (kind != FORMULA_IMBALANCE)
		column->exact = xcalloc(derive->node_count, sizeof(*column->exact));
	for (uint32_t i = 0; i < derive->node_count; i++) {
		const struct row_spread *spread = ranks_spread(derive->metrics->profile, i);
		bool has_time = spread && spread->sum_ns;

		if (has_time && column->exact)
			column->exact[i] = kind == FORMULA_SLOWEST ? (int64_t)spread->max_ns
								   : spread->max_rank;
		column->values[i] = !has_time                      ? NAN
				    : kind == FORMULA_SLOWEST      ? (double)spread->max_ns
				    : kind == FORMULA_SLOWEST_RANK ? spread->max_rank
								   : 100 * spread_imbalance(spread);
	}
}

static void apply_formula(const struct derive *derive, const struct formula *formula,
			  struct metric_column *column)
{
	const struct raw_metric *raw = metrics_find(derive->metrics, formula->source);
	const struct raw_metric *counted, *time;
	double unit = formula->unit;

	switch (formula->kind) {
	case FORMULA_TIME:
	case FORMULA_INTERVAL:
		take_raw(derive, raw, column);
		column->is_additive = formula->kind == FORMULA_TIME;
		unit /= metrics_unit_ns(raw->label);
		break;
	case FORMULA_AVERAGE:
		take_raw(derive, raw, column);
		divide_column(derive, column, metrics_find(derive->metrics, "count"), 1);
		unit /= metrics_unit_ns(raw->label);
		break;
	case FORMULA_MIN:
	case FORMULA_MAX:
	case FORMULA_P50:
	case FORMULA_P90:
	case FORMULA_P99:
		column->values = times_of_runs(derive, formula->kind);
		column->is_inclusive = true;
		break;
	case FORMULA_RATE:
		counted = find_counted(derive->metrics, formula);
		if (counted)
			take_work(derive, raw, counted, column);
		else
			take_raw(derive, raw, column);
		time = metrics_find(derive->metrics, "time");
		divide_column(derive, column, time, 1e9 / metrics_unit_ns(time->label));
		break;
	case FORMULA_UTIL:
		column->values = utilization(derive);
		break;
	case FORMULA_SLOWEST:
	case FORMULA_SLOWEST_RANK:
	case FORMULA_IMBALANCE:
		take_ranks(derive, formula->kind, column);
		column->source = formula->kind == FORMULA_SLOWEST ? raw : NULL;
		break;
	case FORMULA_OCCUPANCY:
		take_raw(derive, raw, column);
		divide_column(derive, column, metrics_find(derive->metrics, "counter_launches"), 1);
		column->is_inclusive = true;
		break;
	default:
		take_bound(derive, formula->kind, column);
		break;
	}
	scale_column(derive, column, unit);
	column->name = xstrdup(formula->name);
}

static void show_raw(const struct derive *derive, const struct raw_metric *raw,
		     struct metric_column *column)
{
	column->name = xstrdup(raw->label);
	column->raw = raw;
	column->is_additive = raw->source == RAW_NUMBER;
	if (raw->source == RAW_NUMBER)
		take_raw(derive, raw, column);
}

/*
 * The cycles of intra-kernel scopes include those of inner scopes, although they are not additive.
 */
static bool holds_inner(const struct raw_metric *raw)
{
	return strcmp(raw->name, "cycles") == 0 || strcmp(raw->name, "normalized_cycles") == 0;
}

/*
 * The whole for shares of an exclusive metric: the sum over all frames, or the outermost ones with
 * it.
 */
static double sum_of_metric(const struct derive *derive, const struct raw_metric *raw,
			    const double *values)
{
	const struct profile_node *nodes = derive->metrics->profile->nodes;
	AUTO_FREE bool *is_inner = xcalloc(derive->node_count, sizeof(bool));
	double total = 0;

	for (size_t i = 0; i < derive->node_count; i++) {
		uint32_t parent = nodes[i].parent;

		is_inner[i] = i && (is_inner[parent] || !isnan(values[parent]));
		if (!isnan(values[i]) && !(is_inner[i] && holds_inner(raw)))
			total += values[i];
	}
	return total;
}

static void show_share(const struct derive *derive, const struct raw_metric *raw,
		       struct metric_column *column)
{
	take_raw(derive, raw, column);
	column->is_additive = true;
	double total = column->values[0];
	if (raw->is_inclusive && derive->own_only) {
		AUTO_FREE double *sums = rolled_up(derive, raw);

		total = sums[0];
	}
	if (!raw->is_inclusive)
		total = sum_of_metric(derive, raw, column->values);
	for (size_t i = 0; i < derive->node_count; i++)
		column->values[i] = total == 0 ? NAN : 100 * column->values[i] / total;
	drop_exact(column);
	column->divisor = total / 100;
	column->name = xasprintf("%s/%%", raw->name);
}

static const struct formula *find_formula(const char *name)
{
	for (size_t i = 0; i < ARRAY_LENGTH(formulas); i++) {
		if (strcasecmp(formulas[i].name, name) == 0)
			return &formulas[i];
	}
	return NULL;
}

/* True if the part before the slash is the name of a raw metric or of formulas. */
static bool is_known_base(const struct metrics *metrics, const char *name, size_t length)
{
	AUTO_FREE char *base = xstrndup(name, length);
	bool is_known = metrics_find(metrics, base) != NULL;

	for (size_t i = 0; i < ARRAY_LENGTH(formulas) && !is_known; i++)
		is_known = strcasecmp(formulas[i].family, base) == 0;
	return is_known;
}

bool derive_lacks_unit(const char *name)
{
	for (size_t i = 0; i < ARRAY_LENGTH(formulas); i++) {
		bool is_time = formulas[i].kind < FORMULA_RATE ||
			       formulas[i].kind == FORMULA_SLOWEST;

		if (is_time && strcasecmp(formulas[i].family, name) == 0)
			return true;
	}
	return false;
}

#define SUGGESTIONS 3

struct suggestion {
	const char *name;
	size_t distance;
};

/* Keeps `best` sorted; among equal distances, the first stays first. */
static void consider(struct suggestion *best, const char *name, const char *wanted)
{
	size_t limit = 1 + strlen(wanted) / 3;
	size_t distance = edit_distance(wanted, name, limit);
	struct suggestion new = {name, distance};

	if (distance > limit && strlen(wanted) >= 3 && strstr(name, wanted))
		new.distance = limit; /* part of a longer name: "stalled" */
	else if (distance > limit)
		return;
	for (size_t i = 0; i < SUGGESTIONS; i++) {
		if (best[i].name && best[i].distance <= new.distance)
			continue;
		struct suggestion old = best[i];

		best[i] = new;
		new = old;
	}
}

/* Writes " (near: a, b, c)" with up to three names, or "" if none is similar. */
static void suggest(const struct metrics *metrics, const char *name, char *text, size_t capacity)
{
	struct suggestion best[SUGGESTIONS] = {{0}};
	AUTO_FREE char *wanted = xstrdup(name);
	size_t used = 0;

	metrics_lower_case(wanted);
	for (size_t i = 0; i < ARRAY_LENGTH(formulas); i++)
		if (is_available(metrics, &formulas[i]))
			consider(best, formulas[i].name, wanted);
	for (size_t i = 0; i < metrics->count; i++)
		consider(best, metrics->raws[i].name, wanted);
	text[0] = '\0';
	for (size_t i = 0; i < SUGGESTIONS && best[i].name && used < capacity; i++)
		used += (size_t)snprintf(text + used, capacity - used, "%s%.40s",
					 i ? ", " : " (near: ", best[i].name);
	if (used && used < capacity)
		snprintf(text + used, capacity - used, ")");
}

static int refuse_metric(const struct metrics *metrics, const char *name, struct proton_error *err)
{
	const struct formula *formula = find_formula(name);
	const char *slash = strrchr(name, '/');
	char near[200];
	char base[64];

	if (formula && formula->kind >= FORMULA_UTIL && formula->kind <= FORMULA_BOUND)
		return err_set(
			err, PROTON_E_INVALID,
			"metric %s is not available: it requires kernels with flops4, flops8, "
			"flops16, flops32, flops64 or bytes, or counters (proton --counters "
			"roofline)",
			formula->name);
	if (formula && formula->kind >= FORMULA_SLOWEST)
		return err_set(err, PROTON_E_INVALID,
			       "metric %s is not found: it compares the kernel times of a job's "
			       "ranks",
			       formula->name);
	if (formula)
		return err_set(err, PROTON_E_INVALID,
			       "metric %s is not found: the profile has no %s. "
			       "Use --list to see the available metrics",
			       formula->name,
			       metrics_has_number(metrics, formula->source)
				       ? "data to derive it from"
				       : formula->source);
	if (derive_lacks_unit(name))
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s has no unit; write %.100s/ms (or /s, /us, /ns)", name,
			       name);
	suggest(metrics, name, near, sizeof(near));
	snprintf(base, sizeof(base), "%.*s", slash ? (int)(slash - name) : 60, name);
	if (slash && is_known_base(metrics, name, (size_t)(slash - name)))
		return err_set(err, PROTON_E_INVALID, "Unsupported unit %.60s in metric %.100s%s%s",
			       slash + 1, name, near,
			       derive_lacks_unit(base) ? "; units: s, ms, us, ns" : "");
	if (strcmp(base, "imbalance") == 0 || strcmp(base, "could_go") == 0 ||
	    strcmp(base, "ranks") == 0)
		return err_set(err, PROTON_E_INVALID,
			       "metric %.100s is one of a job's ranks; add --ranks%s", name,
			       strcmp(name, "imbalance") == 0
				       ? ", and write its limit in percent: imbalance > 10%"
				       : "");
	return err_set(err, PROTON_E_INVALID,
		       "metric %.100s is not found%s. Use --list to see the available metrics",
		       name, near);
}

static int make_column(const struct derive *derive, const char *name,
		       struct metric_column *column_out, struct proton_error *err)
{
	const struct raw_metric *raw = metrics_find(derive->metrics, name);
	const struct formula *formula = find_formula(name);
	size_t length = strlen(name);

	*column_out = (struct metric_column){0};
	if (raw) {
		show_raw(derive, raw, column_out);
		return PROTON_OK;
	}
	if (formula && is_available(derive->metrics, formula)) {
		apply_formula(derive, formula, column_out);
		return PROTON_OK;
	}
	if (length > 2 && strcmp(name + length - 2, "/%") == 0) {
		char *base = xstrndup(name, length - 2);

		raw = metrics_find(derive->metrics, base);
		free(base);
		if (raw && raw->source != RAW_NUMBER)
			return err_set(err, PROTON_E_INVALID, "metric %.100s is not numeric",
				       raw->name);
		if (raw) {
			show_share(derive, raw, column_out);
			return PROTON_OK;
		}
	}
	return refuse_metric(derive->metrics, name, err);
}

int derive_column(const struct metrics *metrics, const char *name, struct metric_column *column_out,
		  struct proton_error *err)
{
	struct derive derive = {metrics, metrics->profile->node_count, false};

	return make_column(&derive, name, column_out, err);
}

int derive_own_column(const struct metrics *metrics, const char *name,
		      struct metric_column *column_out, struct proton_error *err)
{
	struct derive derive = {metrics, metrics->profile->node_count, true};

	return make_column(&derive, name, column_out, err);
}

bool derive_is_of_ranks(const char *name)
{
	const struct formula *formula = find_formula(name);

	return formula && formula->kind >= FORMULA_SLOWEST;
}

bool derive_compares_ranks(const struct metrics *metrics)
{
	const struct profile_ranks *ranks = metrics->profile->ranks;

	for (size_t i = 1; ranks && i < ranks->spread_count; i++)
		if (ranks->spreads[i].ranks > 1)
			return true;
	return false;
}

bool derive_is_available(const struct metrics *metrics, const char *name)
{
	const struct formula *formula = find_formula(name);

	return formula && is_available(metrics, formula);
}

/* ------------------------------------------------------------------ --list */

static void print_group(const struct metrics *metrics, bool is_inclusive, struct out *out)
{
	out_text(out, is_inclusive ? "Available inclusive metrics:\n"
				   : "Available exclusive metrics:\n");
	for (size_t i = 0; i < metrics->count; i++) {
		if (metrics->raws[i].is_inclusive != is_inclusive)
			continue;
		out_text(out, "- ");
		text_clean(out, metrics->raws[i].name, strlen(metrics->raws[i].name));
		out_byte(out, '\n');
	}
}

static void list_for_programs(const struct metrics *metrics, struct report *report)
{
	static const struct report_field fields[] = {{.name = "metric"}, {.name = "kind"}};

	report_begin(report, "metrics", fields, ARRAY_LENGTH(fields));
	for (size_t i = 0; i < metrics->count; i++) {
		const struct report_value values[] = {
			VALUE_TEXT(metrics->raws[i].name),
			VALUE_TEXT(metrics->raws[i].is_inclusive ? "inclusive" : "exclusive")};

		report_row(report, values);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(formulas); i++) {
		const struct report_value values[] = {VALUE_TEXT(formulas[i].name),
						      VALUE_TEXT("derived")};

		if (is_available(metrics, &formulas[i]))
			report_row(report, values);
	}
	report_end(report);
}

void derive_write_list(const void *context, struct report *report)
{
	const struct metrics *metrics = context;
	struct out *out = report->out;
	const char *previous = NULL;

	if (report->format != REPORT_TEXT) {
		list_for_programs(metrics, report);
		return;
	}
	print_group(metrics, true, out);
	print_group(metrics, false, out);
	out_text(out, "Derived metrics:\n");
	for (size_t i = 0; i < ARRAY_LENGTH(formulas); i++) {
		const char *family = formulas[i].family;

		if (!is_available(metrics, &formulas[i]))
			continue;
		out_text(out, previous && strcmp(previous, family) == 0 ? ", "
			      : previous                                ? "\n- "
									: "- ");
		out_text(out, formulas[i].name);
		previous = family;
	}
	out_text(out, previous ? "\n" : "");
	out_text(out, "- METRIC/%: share of any numeric metric above\n");
}
