/*
 * The raw metrics of a profile: what was recorded, under the names people use on the command line:
 * in lower case and without the unit, so that "Time" and "time (ns)" are both "time". Their numbers
 * come from model/rollup.h.
 */
#ifndef VIEWER_QUERY_RAW_METRICS_H
#define VIEWER_QUERY_RAW_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/profile.h"
#include "model/rollup.h"

enum raw_source {
	RAW_NUMBER, /* a column of model/rollup.h, by its label */
	RAW_TEXT,   /* strings and vectors, which can only be shown */
	RAW_DEVICE_ID,
	RAW_DEVICE_TYPE,
	RAW_LAUNCH_CONFIG,
};

struct raw_metric {
	char *name;  /* lower-case, without unit */
	char *label; /* as it is stored */
	enum raw_source source;
	uint32_t metric; /* index of profile->metrics; METRIC_NONE: only kernels have it */
	bool is_inclusive;
};

#define METRIC_NONE UINT32_MAX

struct metrics {
	const struct profile *profile;
	struct raw_metric *raws;
	size_t count;
	bool has_kernel_range; /* some kernel knows its shortest and longest run */
	/* Where there are many; else NULL. */
	const struct raw_metric **by_label,
		**by_name; /* sorted; of equal ones the first one first */
	struct value_index values;
};

void metrics_init(struct metrics *metrics, const struct profile *profile);
void metrics_fini(struct metrics *metrics);

/* By name, with or without unit, in any case; the whole label is looked for first. NULL: none. */
const struct raw_metric *metrics_find(const struct metrics *metrics, const char *name);

/* A number's column: own values, or sums over subtrees. The caller's, column_fini(). */
struct column metrics_column(const struct metrics *metrics, const struct raw_metric *raw,
			     bool is_inclusive);
/* The shortest (or longest) run of a kernel in each subtree, in ns. */
struct column metrics_kernel_range(const struct metrics *metrics, bool longest);
/* A number that was recorded in `node` itself as a metric (not by kernels); 0 if there is none. */
double metrics_own_number(const struct metrics *metrics, const struct raw_metric *raw,
			  uint32_t node);

/* Appends a node's value of a metric that is no number; nothing if it has none. */
void metrics_text(struct out *out, const struct metrics *metrics, const struct raw_metric *raw,
		  uint32_t node);

/* Nanoseconds per unit of a label such as "cpu_time (us)"; 1 if it names no unit of time. */
double metrics_unit_ns(const char *label);

#endif
