/*
 * Raw metrics: the recorded metrics of a profile, under their names on the command line, which are
 * in lower case and without unit: "Time" and "time (ns)" are both "time". Values come from
 * model/rollup.h.
 */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "model/profile.h"
#include "model/rollup.h"

enum raw_source {
	RAW_NUMBER, /* a column of model/rollup.h, by its label */
	RAW_TEXT,   /* strings and vectors, which are only shown */
	RAW_DEVICE_ID,
	RAW_DEVICE_TYPE,
	RAW_LAUNCH_CONFIG,
};

struct raw_metric {
	char *name;  /* lower case, without unit */
	char *label; /* as stored */
	enum raw_source source;
	uint32_t metric; /* index in profile->metrics; METRIC_NONE: only kernels have it */
	bool is_inclusive;
};

#define METRIC_NONE UINT32_MAX

struct metrics {
	const struct profile *profile;
	struct raw_metric *raws;
	size_t count;
	bool has_kernel_range;     /* at least one kernel has its shortest and longest run */
	struct hash_table by_text; /* labels and names: index of a metric + 1 */
	struct value_index values; /* if there are many metrics */
};

void metrics_init(struct metrics *metrics, const struct profile *profile);
void metrics_fini(struct metrics *metrics);

/* By name, with or without unit, case-insensitive; an exact label is preferred. NULL: none. */
const struct raw_metric *metrics_find(const struct metrics *metrics, const char *name);
bool metrics_has_number(const struct metrics *metrics, const char *name);

/*
 * The column of a numeric metric: exclusive or inclusive values. The caller releases it with
 * column_fini().
 */
struct column metrics_column(const struct metrics *metrics, const struct raw_metric *raw,
			     bool is_inclusive);
/* The value of a metric recorded in `node` itself, not by kernels; 0 if there is none. */
double metrics_own_number(const struct metrics *metrics, const struct raw_metric *raw,
			  uint32_t node);

/* Appends a node's value of a text metric; nothing if it has none. */
void metrics_text(struct out *out, const struct metrics *metrics, const struct raw_metric *raw,
		  uint32_t node);

/* ASCII only, independent of the locale; metric names need no more. */
void metrics_lower_case(char *text);

/* Nanoseconds per unit of a label such as "cpu_time (us)"; 1 if it has no time unit. */
double metrics_unit_ns(const char *label);
