/*
 * Output formats for views: selected frames and metrics, as shown by proton-viewer, one file per
 * format. The formats of export.h contain a whole profile and can also be written by the recorder.
 *
 * A view has the values that the viewer prints; exporters compute no sums. Hidden nodes still count
 * in their parents, as on the screen.
 */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

#define EXPORT_NO_FIELD UINT32_MAX
#define EXPORT_NO_WORD UINT32_MAX

/*
 * Values per node, run-length encoded for profiles with many metrics, where most values equal the
 * one before.
 */
struct export_numbers {
	const double *values;   /* NAN: no value; NULL: no numbers at all */
	const int64_t *exact;   /* the same as integers; NULL if they are not integers */
	const uint32_t *starts; /* first nodes of the runs; NULL: one value per node */
	uint32_t run_count;
};

/* The run that contains a node. */
uint32_t export_run_of(const struct export_numbers *numbers, uint32_t node);

static inline double export_value(const struct export_numbers *numbers, uint32_t node)
{
	return numbers->values[numbers->starts ? export_run_of(numbers, node) : node];
}

/* Only if `exact` is set. */
static inline int64_t export_exact(const struct export_numbers *numbers, uint32_t node)
{
	return numbers->exact[numbers->starts ? export_run_of(numbers, node) : node];
}

struct export_metric {
	const char *name; /* as shown by the viewer: "time/ms", "flops16" */
	const char *unit; /* "nanoseconds" ... "seconds", "bytes", "count"; "": unknown */
	/* In comparisons, the end of the name: "before", "mean", ...; else NULL. */
	const char *which;
	/* The values that the viewer prints; none: a word per node, in tables only. */
	struct export_numbers total;
	/*
	 * Exclusive values, including those of hidden nodes directly below. None: the metric is not
	 * additive, such as an average or a rate.
	 */
	struct export_numbers own;
	bool is_inclusive; /* total is the sum over subtrees; else it is exclusive */
	uint32_t field;    /* enum kernel_field, if kernels have the metric; or EXPORT_NO_FIELD */
	double per_unit;   /* divisor that converts the kernels' field to `own` */
	/* Decimals in the viewer, see viewer/print/number_format.h. */
	int decimals;
	bool is_scientific;
	const char *const *words;
	const uint32_t *word; /* index of words; EXPORT_NO_WORD = none */
};

/* Kernels, devices and annotated source of the HTML report. */

#define REPORT_WIDTHS 5 /* of operands: 4, 8, 16, 32 and 64 bits */

/* A kernel by name: sums over its shown nodes in all contexts. */
struct report_kernel {
	uint32_t frame;
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns; /* KERNEL_TIME_UNKNOWN if the profile lacks it */
	uint64_t max_ns;
	double flops; /* NAN if none were recorded; the same for the following */
	double bytes;
	double util;
	bool has_histogram; /* of all its runs */
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

struct report_device {
	uint32_t device; /* index of profile->devices */
	uint64_t total_ns;
	bool has_peaks;
	double flop_per_s[REPORT_WIDTHS];
	double byte_per_s;
};

struct export_report {
	struct report_kernel *kernels; /* by total time, largest first */
	size_t kernel_count;
	struct report_device *devices; /* devices that ran something */
	size_t device_count;
	bool uses_width[REPORT_WIDTHS]; /* operations of that width were recorded */
	size_t hidden_count;            /* frames that are not shown */
	const char *hidden_by;          /* the option; "": lines of libraries, by default */
	/* Annotated source as JSON, by viewer/export/report_source.c; empty: no PC samples. */
	struct out source;
	/* Text of the views --warps and of the waiting of --ranks; empty: there is none. */
	struct out warps, waits;
	/* Heat map of ranks as JSON, by viewer/export/report_ranks.c; empty: not a merged job. */
	struct out ranks;
	/* Time line as JSON; empty: made from the profile's trace (html_timeline.h). */
	struct out timeline;
};

/* The page around the profile's JSON, which html/embed.py makes of html/. */
extern const char html_page_head[];
extern const size_t html_page_head_bytes;
extern const char html_page_tail[];
extern const size_t html_page_tail_bytes;

struct export_view {
	const struct profile *profile;
	const char *title; /* title of the page or file: the origin of the profile */
	const uint8_t
		*shown; /* per node; descendants of a node that is not shown are not shown either */
	const uint32_t
		*owner; /* per node: the node itself, or its nearest ancestor that is shown */
	const struct export_metric *metrics;
	size_t metric_count;
	/* Appends a frame's name in the selected format, "<unnamed>" if it is empty. */
	void (*write_name)(struct out *out, const struct export_view *view, uint32_t frame);
	uint32_t name_format; /* for write_name */
	uint32_t name_style;
	const struct export_view *other; /* the baseline, or NULL */
	struct export_report *report;    /* HTML only, else NULL */
	uint64_t negative_count;         /* out: values that the format cannot represent */
};

/* Errors, of memory too, become errors of `out`. */
void export_folded(struct export_view *view, struct out *out);
void export_speedscope(struct export_view *view, struct out *out);
void export_pprof(struct export_view *view, struct out *out);
void export_html(struct export_view *view, struct out *out);
void export_csv(struct export_view *view, struct out *out);

/*
 * The next shown node in depth-first order, children in file order; 0 at the end. *level counts
 * from 0, the root.
 */
uint32_t export_view_next(const struct export_view *view, uint32_t node, uint32_t *level);

/*
 * A walk over the shown nodes in that order, with the path of each: its frames, or also text for
 * line formats: names with ';' between them, where newlines, ';' and bytes that are not UTF-8 are
 * written as \xNN.
 */
struct export_walk {
	const struct export_view *view;
	struct out *out; /* the walk ends when it has failed */
	enum {
		WALK_FRAMES,
		WALK_TEXTS,
		WALK_CSV
	} kind;
	uint32_t node; /* the current one, and its level */
	uint32_t level;
	struct export_level {
		uint32_t frame;
		size_t length; /* of the path */
	} * levels;
	size_t capacity;
	bool has_begun;
	struct out path; /* of the current node; with WALK_CSV the root and neutralized names */
	struct out name; /* its own, not escaped */
};

struct export_walk export_walk_begin(const struct export_view *view, struct out *out, int kind);
/* False at the end, which releases the walk. `out` fails with paths that are too long. */
bool export_walk_next(struct export_walk *walk);

/* "CUDA 0" */
void export_device_name(const struct profile *profile, uint32_t device, struct out *out);
/*
 * Exclusive values of a metric on one device, or on all devices with EXPORT_ALL_DEVICES, for
 * metrics with a field; per node, 0 if none; malloc'd, NULL if memory ran out, and `out` fails.
 */
#define EXPORT_ALL_DEVICES UINT32_MAX
double *export_device_own(const struct export_view *view, const struct export_metric *metric,
			  uint32_t device, struct out *out);
/* True for each device that ran something, malloc'd; *count of them. NULL as above. */
bool *export_used_devices(const struct export_view *view, size_t *count, struct out *out);

/*
 * E_RANGE if the paths of all written frames are too long, at 2 bytes per level. `is_table`: frames
 * without a value are written too.
 */
int export_check_paths(const struct export_view *view, bool is_table, struct proton_error *err);
