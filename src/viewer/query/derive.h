/*
 * Columns: from a metric's name on the command line to one number per node.
 *
 * With T the time of a node's kernels in seconds, C their count (both over the subtree):
 *   time/U  avg_time/U  min_time/U  max_time/U      T, T / C, shortest and longest run
 *   p50_time/U  p90_time/U  p99_time/U              as many percent of the runs are not longer
 *   cpu_time/U  avg_cpu_time/U                      of timed scopes; the average is per kernel (C)
 *   [g|t]flop[8|16|32|64]/s  [g|t]byte/s            flops, flopsW or bytes / T
 *   util                                            share of the device's peak, see util.h
 *   METRIC/%                                        share of the root (inclusive) or of the sum;
 *                                                   of cycles, of the sum of outermost scopes
 *   METRIC                                          as it was recorded
 */
#ifndef VIEWER_QUERY_DERIVE_H
#define VIEWER_QUERY_DERIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "viewer/query/raw_metrics.h"

struct metric_column {
	char *name;        /* as it is shown: "time/ms", "cpu_time (ns)" */
	const char *which; /* compared: "before", "mean", ..., with which the name ends; or NULL */
	bool is_inclusive;
	bool is_additive; /* a parent is at least the sum of its children, so shares make sense */
	double *values;   /* per node, NAN = none; NULL: text, see raw and words */
	int64_t *exact;   /* the same as integers, 0 for none; NULL if they are not */
	const struct raw_metric *raw; /* set if the column shows a raw metric */
	/* Of additive columns: what the numbers are made of, and what they were divided by. */
	const struct raw_metric *source;
	double divisor;
	const char *const *words; /* borrowed; set if each node shows one of these words */
	uint32_t *word;           /* per node, index of words; WORD_NONE = none */
};

#define WORD_NONE UINT32_MAX

struct derive {
	const struct metrics *metrics;
	size_t node_count;
	double *time_s; /* T and C, once somebody needed them */
	double *count;
	bool own_only;
};

void derive_init(struct derive *derive, const struct metrics *metrics);
void derive_fini(struct derive *derive);

/*
 * E_INVALID with a sentence that names what is near. The column is the caller's,
 * metric_column_fini().
 */
int derive_column(struct derive *derive, const char *name, struct metric_column *column_out,
		  struct proton_error *err);
/*
 * The same column for what each node recorded itself, not rolled up. Only for additive columns.
 */
int derive_own_column(struct derive *derive, const char *name, struct metric_column *column_out,
		      struct proton_error *err);
/* True of "time", "avg_time", ... without the unit that belongs to them. */
bool derive_lacks_unit(const char *name);
void metric_column_fini(struct metric_column *column);

/*
 * The derived names this profile has the metrics for, one after the other; NULL past the last.
 * Names of one family ("time/s", "time/ms") differ in their unit only.
 */
const char *derive_available(const struct metrics *metrics, size_t index, const char **family_out);

#endif
