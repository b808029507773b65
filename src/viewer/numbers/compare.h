/*
 * Comparison of profiles node by node: the two sides of --diff, or statistics over several files.
 * Every value is derived within its own profile and then compared. Nodes with the same path are the
 * same node.
 */
#pragma once

#include "model/merge.h"
#include "viewer/query/input.h"
#include "viewer/query/view.h"

/*
 * --diff: runs of FILE against runs of BASE. The columns of each metric are the means before and
 * after, the change (after - before) and the change in percent of the value before; with several
 * runs also its confidence interval and a verdict (repeats.h). The last column tells new and gone
 * frames. Rows are sorted by the magnitude of the first change. A frame that one side lacks counts
 * as 0 for additive metrics. With --merge sum, each side is the sum of its files. E_INVALID with an
 * empty message: messages were printed.
 */
int compare_runs(struct view *view, struct input *base, struct input *input,
		 const struct options *options, struct proton_error *err);

/*
 * E_INVALID: the options compare sums of different numbers of files, or sums by default where means
 * are the default. Called after loading, when it is known which are copies or cannot be read.
 */
int compare_check_sums(const struct options *options, const struct input *base,
		       const struct input *input, struct proton_error *err);

/*
 * --merge: each file by itself. Per metric the mean, minimum or maximum over the files;
 * MERGE_SPREAD has all three, the spread (100 * (max - min) / mean) and the file with the maximum.
 * Only one file is in memory at a time. E_INVALID also if no file could be read.
 */
int compare_many(struct view *view, struct input *input, const struct options *options,
		 struct proton_error *err);

/*
 * --trend: one row per stored run, in the given order, with a metric of the selected kernels and
 * its change against the median of the runs before. Returns the exit status.
 */
int trend_run(const struct options *options, struct input *input);

/* Parts that the first two share: the union of the trees, and the compared metrics. */

struct compared_metric {
	char *name;  /* as requested */
	char *label; /* column title; NULL until a profile has the metric */
	bool is_inclusive;
	bool is_additive;
	/* For additive metrics: the label of the source metric, and its divisor. */
	char *source;
	double divisor;
};

struct comparison {
	const struct options *options;
	struct profile *all; /* the union */
	struct merge *merge;
	/* Shown metrics, then metrics of thresholds, of gates, and of the ranks of jobs. */
	struct compared_metric *metrics;
	size_t name_count;
	size_t shown_count;
	size_t first_gate, gate_end;
	size_t rank_count;               /* the last ones: 0 or RANK_METRICS */
	bool is_exact;                   /* for programs: all digits, even of rounding errors */
	struct proton_error first_error; /* about a metric that is not found yet */
};

/* The largest time of a rank, which rank it is, and the imbalance. */
#define RANK_METRICS 3u

void comparison_begin(struct comparison *comparison, const struct options *options);
void comparison_end(struct comparison *comparison);

/*
 * A profile with its metrics: a column per name, without values if the profile lacks the metric.
 * `nodes`: the union's node for each of its nodes.
 */
typedef void comparison_use(struct comparison *comparison, const struct view *view,
			    const struct metric_column *columns, const uint32_t *nodes,
			    void *context);
/* Takes a profile, derives its metrics, adds its tree to the union and calls `use`. */
int comparison_add(struct comparison *comparison, struct profile *profile, comparison_use *use,
		   void *context, struct proton_error *err);

/* E_INVALID: no profile has one of the metrics. */
int comparison_check_found(const struct comparison *comparison, struct proton_error *err);

/* Makes the union the profile of *view, with space for `columns` columns and for the gates. */
void comparison_take_union(struct comparison *comparison, struct view *view, size_t columns);

/* A new column of the view, "NAME WHICH", with room for a value per node. `which` is a constant. */
struct metric_column *comparison_column(const struct comparison *comparison, struct view *view,
					size_t name, const char *which);

/* A new column of words of a table, by node: WORD_NONE or an index. Takes the name. */
struct metric_column *comparison_words(struct view *view, char *name, const char *const *words);

/* Numbers for the gate of a name. */
void comparison_gate(const struct comparison *comparison, struct view *view, size_t name,
		     const struct gate_numbers *numbers);
