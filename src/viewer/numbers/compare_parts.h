/*
 * Parts that all comparisons of profiles share: the union of their trees, and the compared metrics.
 */
#ifndef VIEWER_NUMBERS_COMPARE_PARTS_H
#define VIEWER_NUMBERS_COMPARE_PARTS_H

#include "model/merge.h"
#include "viewer/query/view.h"

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
	size_t rank_count;               /* the last ones: 0 or RANK_METRICS */
	struct proton_error first_error; /* about a metric that is not found yet */
};

/* The largest time of a rank, which rank it is, and the imbalance. */
#define RANK_METRICS 3u

void comparison_begin(struct comparison *comparison, const struct options *options);
void comparison_end(struct comparison *comparison);

/*
 * A profile with its metrics: a column per name, without values if the profile lacks the metric.
 */
typedef void comparison_use(struct comparison *comparison, const struct view *view,
			    const struct metric_column *columns, void *context);
/* Takes a profile, derives its metrics and calls `use`. */
int comparison_add(struct comparison *comparison, struct profile *profile, comparison_use *use,
		   void *context, struct proton_error *err);

/* Adds a profile's tree to the union. Returns the union's node for each of its nodes, malloc'd. */
uint32_t *comparison_map(struct comparison *comparison, const struct profile *profile);

/* E_INVALID: no profile has one of the metrics. */
int comparison_check_found(const struct comparison *comparison, struct proton_error *err);

/* Makes the union the profile of *view, with space for `columns` columns and for the gates. */
void comparison_take_union(struct comparison *comparison, struct view *view, size_t columns);

/* A new column of the view, "NAME WHICH", with room for a value per node. `which` is a constant. */
struct metric_column *comparison_column(const struct comparison *comparison, struct view *view,
					size_t name, const char *which);

/* A new column of words of a table, by node: WORD_NONE or an index. Takes the name. */
struct metric_column *comparison_words(struct view *view, char *name, const char *const *words);

/* True for output that programs read: it has all digits, even those of rounding errors. */
bool comparison_is_exact(const struct comparison *comparison);

/* The index of the first gate's name, and the one after the last. */
size_t comparison_first_gate(const struct comparison *comparison);
size_t comparison_end_of_gates(const struct comparison *comparison);

#endif
