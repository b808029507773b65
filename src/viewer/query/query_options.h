/* Options of proton-viewer about what is read, selected and compared. */
#pragma once

#include "base/option_table.h"
#include "format/rank.h"
#include "model/regroup.h"
#include "viewer/numbers/gate.h"
#include "viewer/query/hiding.h"

#define DEPTH_DEFAULT 100

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

/* The tables of --ranks. */
enum ranks_table {
	RANKS_ALL, /* frames, and short tables of ranks and groups */
	RANKS_FRAMES,
	RANKS_RANKS,
	RANKS_GROUPS,
};

/* -t METRIC=VALUE */
struct threshold {
	char *metric;
	double min;
};

struct query_options {
	char **paths; /* of the profiles */
	size_t path_count;
	char *base; /* --diff: the first of bases; NULL: none */
	char **bases;
	size_t base_count;
	const char **metrics; /* malloc'd; points into metrics_text */
	size_t metric_count;  /* 0: defaults */
	char *metrics_text;
	const char *include;
	const char *exclude;
	struct hiding hiding;
	double threshold; /* for the first metric */
	bool has_threshold;
	struct threshold *thresholds; /* for other metrics */
	size_t threshold_count;
	struct gate *gates;
	size_t gate_count;
	size_t depth;
	bool depth_is_set;
	size_t levels; /* --depth of --group layer: parts of names; 0: all */
	size_t rows;   /* 0: all */
	enum view_mode mode;
	enum regroup_by group_by;
	enum merge_how merge_how;
	bool is_sum_asked_for; /* --merge sum was given; it is also the default */
	bool list;
	bool brief;
	bool markdown;     /* for --brief */
	const char *peaks; /* NULL: the rates of the table */
	bool trend;
	bool warps;
	bool source;        /* --source */
	const char *kernel; /* of --source; NULL: all */
	bool sass;
	bool ranks; /* --ranks */
	enum ranks_table ranks_table;
	const char *ranks_of; /* a frame; NULL: none */
	uint32_t rank;        /* --rank, or RANK_NONE */
	const char *strip;    /* --strip: the file to write; NULL: none */
	bool allow_partial;
	bool allow_mixed;
};

/* The options with their defaults, set by the rows. */
struct option_table query_options_init(struct query_options *query);
void query_options_fini(struct query_options *query);
