/*
 * Columns: from a metric name on the command line to one number per node. docs/guide/viewing.md has
 * the names. T is the time of a node's kernels in seconds, C their count, both over the subtree.
 */
#pragma once

#include "base/err.h"
#include "viewer/print/report_table.h"
#include "viewer/query/raw_metrics.h"

struct metric_column {
	char *name;        /* as shown: "time/ms", "cpu_time (ns)" */
	const char *which; /* in comparisons, the end of the name: "before", "mean", ...; or NULL */
	bool is_inclusive;
	bool is_additive; /* a parent is at least the sum of its children, so shares make sense */
	double *values;   /* per node, NAN = none; NULL: text, see raw and words */
	int64_t *exact;   /* the same as integers, 0 for none; NULL if they are not */
	const struct raw_metric *raw; /* set if the column shows a raw metric */
	/* For additive columns: the source metric and its divisor. */
	const struct raw_metric *source;
	double divisor;
	const char *const *words; /* borrowed; set if each node shows one of these words */
	uint32_t *word;           /* per node, index of words; WORD_NONE = none */
};

#define WORD_NONE UINT32_MAX

/*
 * E_INVALID with a message that suggests similar names. The caller releases the column with
 * metric_column_fini().
 */
int derive_column(const struct metrics *metrics, const char *name, struct metric_column *column_out,
		  struct proton_error *err);
/* The same column with exclusive values. Only for additive columns. */
int derive_own_column(const struct metrics *metrics, const char *name,
		      struct metric_column *column_out, struct proton_error *err);
/* True for "time", "avg_time", ... without the unit that they require. */
bool derive_lacks_unit(const char *name);
void metric_column_fini(struct metric_column *column);
/* 100 % of numbers: the value of the root if they are inclusive, else the sum of all nodes. */
double metric_column_whole(const struct metric_column *column, size_t node_count);

/* True if `name` is a metric that compares the ranks of a job. */
bool derive_is_of_ranks(const char *name);
/* True if the profile is of a job with several ranks to compare. */
bool derive_compares_ranks(const struct metrics *metrics);
/* True if the profile can provide the derived metric `name`. */
bool derive_is_available(const struct metrics *metrics, const char *name);

/* --list of a struct metrics: the names that -m accepts with this profile. */
void derive_write_list(const void *metrics, struct report *report);
