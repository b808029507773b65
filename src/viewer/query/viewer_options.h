/* Command-line options of proton-viewer. */
#ifndef VIEWER_QUERY_VIEWER_OPTIONS_H
#define VIEWER_QUERY_VIEWER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "model/regroup.h"
#include "viewer/numbers/gate.h"
#include "viewer/print/terminal.h"
#include "viewer/query/frame_names.h"

enum view_mode {
	VIEW_TREE,
	VIEW_FLAT,    /* grouped; see group_by */
	VIEW_CALLERS, /* bottom-up */
};

/* How several files are combined. */
enum merge_how {
	MERGE_SUM, /* one profile */
	MERGE_MEAN,
	MERGE_MIN,
	MERGE_MAX,
	MERGE_SPREAD, /* mean, minimum, maximum, and the file with the maximum */
};

/* -t METRIC=VALUE */
struct threshold {
	char *metric;
	double min;
};

struct options {
	const char *path;   /* the first */
	char *const *paths; /* all */
	size_t path_count;
	char *base;           /* --diff */
	const char **metrics; /* malloc'd; points into metrics_text */
	size_t metric_count;  /* 0: defaults */
	char *metrics_text;
	const char *include;
	const char *exclude;
	const char *export_format; /* --export; NULL: the suffix of `output` selects it */
	const char *output;
	bool no_clobber;  /* an existing `output` is an error */
	double threshold; /* for the first metric */
	bool has_threshold;
	struct threshold *thresholds; /* for other metrics */
	size_t threshold_count, threshold_capacity;
	struct gate *gates;
	size_t gate_count, gate_capacity;
	size_t depth;
	bool depth_is_set;
	size_t rows; /* 0: all */
	enum view_mode mode;
	enum regroup_by group_by;
	bool csv;
	bool json;
	enum merge_how merge_how;
	bool is_sum_asked_for; /* --merge sum was given; it is also the default */
	enum name_format format;
	enum name_style names;
	bool has_names;
	enum color_choice color;
	bool list;
	bool allow_partial;
	bool print_sorted;
	bool all;      /* --all: print every frame even on a terminal */
	bool no_pager; /* --no-pager */
	bool warps;
};

enum options_result {
	OPTIONS_RUN,
	OPTIONS_DONE, /* help or version was printed */
	OPTIONS_BAD,  /* a message was printed on standard error */
};

enum options_result options_parse(struct options *options, int argc, char **argv);
void options_fini(struct options *options);

#endif
