/*
 * A profile the way the command line wants to see it: a tree, flat, or upside down, without launch
 * metadata, and with the names of its metrics.
 */
#ifndef VIEWER_QUERY_ARRANGE_H
#define VIEWER_QUERY_ARRANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/profile.h"
#include "viewer/print/table_model.h"
#include "viewer/query/derive.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/query/viewer_options.h"

struct view {
	struct profile *profile;
	struct metrics metrics;
	uint8_t *state;                /* per node, enum node_state */
	struct metric_column *columns; /* what is shown, then what is only looked at */
	size_t column_count;
	size_t shown_count;
	size_t sort_column;
	bool by_magnitude;
	bool is_default;            /* nobody asked for these columns: some may be left out */
	struct gate_numbers *gates; /* of the options' gates */
	size_t gate_count;
	size_t base_runs, runs; /* of --diff; 0 without it */
};

/*
 * Takes launch metadata out of a profile and makes what the mode shows of it: replaces *profile by
 * a flat one or one upside down. *state_out: see struct view; malloc'd, NULL when it fails.
 */
int view_turn(struct profile **profile, const struct options *options, uint8_t **state_out,
	      struct proton_error *err);

/*
 * Takes the profile (also when it fails). E_INVALID: -i or -e is no regular expression. In the
 * modes that make something from the tree, these choose what is made; in a tree they hide.
 */
int view_init(struct view *view, struct profile *profile, const struct options *options,
	      struct proton_error *err);
void view_fini(struct view *view);

/* True if nothing was measured anywhere. */
bool view_is_empty(const struct view *view);

/*
 * The metrics to show: those of -m, or what suits the profile and the mode. Borrowed; *count_out of
 * them, at most VIEW_METRICS_MOST unless they are those of -m.
 */
#define VIEW_METRICS_MOST 24
const char *const *view_metrics(const struct view *view, const struct options *options,
				const char *names[VIEW_METRICS_MOST], size_t *count_out);

/* Makes the columns of a single profile. E_INVALID: an unknown metric. */
int view_columns(struct view *view, const struct options *options, struct proton_error *err);

/* Applies -i and -e to a tree, and -t. E_INVALID with a sentence. */
int view_filter(struct view *view, const struct options *options, struct proton_error *err);
/* What can only be told once it is known what is shown, and in what order. */
void view_settle(struct view *view, const struct options *options);
/* Everything that the printers need; borrows from the view. */
struct picture view_picture(const struct view *view, const struct options *options);

#endif
