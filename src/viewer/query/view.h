/*
 * Views of a profile: a tree, flat table or bottom-up tree, without launch metadata, with its
 * metrics and columns.
 */
#pragma once

#include "base/err.h"
#include "model/profile.h"
#include "viewer/print/terminal.h"
#include "viewer/query/derive.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/viewer_options.h"

/* Frames that are not printed on a terminal unless --all is given. */
struct view_cut {
	size_t frames;
	double value;   /* of the sort column */
	double percent; /* NAN: not a share */
};

struct view {
	struct profile *profile;
	struct metrics metrics;
	uint8_t *state;                /* per node, enum node_state */
	struct metric_column *columns; /* columns to show, then columns that are only tested */
	size_t column_count;
	size_t shown_count;         /* 0: --csv or --json without metrics; the first is colored */
	size_t sort_column;         /* siblings are sorted by it, largest first */
	bool by_magnitude;          /* sorted by absolute values */
	bool is_default;            /* default columns: those that do not fit may be omitted */
	struct gate_numbers *gates; /* for the options' gates */
	size_t gate_count;
	const struct gate_result *results; /* by gate; NULL: not checked */
	size_t base_runs, runs;            /* numbers of files of --diff; 0 without it */
	char *why;                         /* the sentence of --diff: see why.h; NULL: none */
	/* For the printers, from view_settle() on. */
	size_t depth; /* levels to print, counting the root */
	bool is_flat; /* a table of the nodes below the root */
	size_t rows;  /* maximum number of rows of a flat table; 0: all */
	enum name_format format;
	enum name_style names;
	struct view_cut cut;
	struct term term;
};

/*
 * Removes hidden frames and launch metadata from a profile and transforms it for the mode: replaces
 * *profile by a flat table or bottom-up tree. *state_out: see struct view; malloc'd, NULL on
 * failure.
 */
int view_turn(struct profile **profile, const struct options *options, uint8_t **state_out,
	      struct proton_error *err);

/*
 * Takes the profile, even on failure. E_INVALID: -i or -e is not a regular expression. In modes
 * that build a table from the tree, -i and -e select what is counted; in a tree they hide nodes.
 */
int view_init(struct view *view, struct profile *profile, const struct options *options,
	      struct proton_error *err);
void view_fini(struct view *view);

/* True if these options add up the times of the ranks of a job in another way than its tree. */
bool view_needs_rank_times(const struct options *options);

/* True if no node has a measured value. */
bool view_is_empty(const struct view *view);

/*
 * The metrics to show: those of -m, or the defaults for the profile and the mode. Borrowed; the
 * result has *count_out entries, at most VIEW_METRICS_MAX unless they come from -m.
 */
#define VIEW_METRICS_MAX 24
const char *const *view_metrics(const struct view *view, const struct options *options,
				const char *names[VIEW_METRICS_MAX], size_t *count_out);

/* Creates the columns of a single profile. E_INVALID: an unknown metric. */
int view_columns(struct view *view, const struct options *options, struct proton_error *err);

/* Applies -i and -e to a tree, and -t. E_INVALID with a message. */
int view_filter(struct view *view, const struct options *options, struct proton_error *err);
/* Makes it ready for the printers: its style, and what depends on the order of nodes, cum/%. */
void view_settle(struct view *view, const struct options *options);
