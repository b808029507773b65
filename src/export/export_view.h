/*
 * Outputs that show what proton-viewer was asked for: chosen frames in chosen metrics. One file per
 * format, one table of them, beside the table of export.h, whose formats hold a whole profile and
 * can be written by the recorder too.
 *
 * A view has the numbers that the viewer prints: the exporters take them and add up nothing
 * themselves. What is hidden still counts in its parents, as on the screen.
 */
#ifndef EXPORT_EXPORT_VIEW_H
#define EXPORT_EXPORT_VIEW_H

#include "base/buf.h"
#include "model/profile.h"

#define EXPORT_NO_FIELD UINT32_MAX
#define EXPORT_NO_WORD UINT32_MAX

struct export_report; /* export/html_report.h */

/*
 * Numbers of the nodes. Of a profile with many metrics most are the same as those of the node
 * before: then there is one per run of equal ones.
 */
struct export_numbers {
	const double *values;   /* NAN where there is nothing; NULL: no numbers at all */
	const int64_t *exact;   /* the same as integers; NULL if they are none */
	const uint32_t *starts; /* first nodes of the runs; NULL: there is a value per node */
	uint32_t run_count;
};

/* The run that a node is in. */
uint32_t export_run_of(const struct export_numbers *numbers, uint32_t node);

static inline double export_value(const struct export_numbers *numbers, uint32_t node)
{
	return numbers->values[numbers->starts ? export_run_of(numbers, node) : node];
}

/* Where there are exact ones. */
static inline int64_t export_exact(const struct export_numbers *numbers, uint32_t node)
{
	return numbers->exact[numbers->starts ? export_run_of(numbers, node) : node];
}

struct export_metric {
	const char *name; /* as the viewer shows it: "time/ms", "flops16" */
	const char *unit; /* "nanoseconds" ... "seconds", "bytes", "count"; "" = none known */
	/* Of what was compared: "before", "mean", ..., with which the name ends; else NULL. */
	const char *which;
	/* What the viewer prints; none: a word per node, of a table only. */
	struct export_numbers total;
	/*
	 * What a node adds itself, with what is hidden directly below it. None: not additive, such
	 * as an average or a rate.
	 */
	struct export_numbers own;
	bool is_inclusive; /* total adds up over subtrees; else it is the frame's own */
	uint32_t field;    /* enum kernel_field, where kernels have it; or EXPORT_NO_FIELD */
	double per_unit;   /* what the kernels' field is divided by to be `own` */
	/* How the viewer prints it, see viewer/print/number_format.h. */
	int decimals;
	bool is_scientific;
	const char *const *words;
	const uint32_t *word; /* index of words; EXPORT_NO_WORD = none */
};

struct export_view {
	const struct profile *profile;
	const char *title;     /* of the page or the file: where the profile came from */
	const uint8_t *shown;  /* per node; a child of a node that is not shown is not either */
	const uint32_t *owner; /* per node: itself, or the next one above it that is shown */
	const struct export_metric *metrics;
	size_t metric_count;
	/* Appends a frame's name in the format that was asked for. */
	void (*write_name)(struct out *out, const struct export_view *view, uint32_t frame);
	uint32_t name_format; /* for write_name */
	uint32_t name_style;
	const struct export_view *other;    /* what it is compared with, or NULL */
	const struct export_report *report; /* HTML only, else NULL */
	uint64_t negative_count;            /* out: values that the format has no place for */
};

struct export_view_format {
	const char *name;
	const char *suffix;
	const char *what;  /* for lists of formats, a few words */
	bool is_binary;    /* nothing to look at on a terminal */
	bool needs_weight; /* shows metrics as sizes: those without `own` are refused */
	bool takes_one;    /* a single metric, or one before and after */
	bool has_paths;    /* writes the path of each frame, not only its parent */
	bool is_report;    /* needs view->report, and shows derived metrics too */
	int (*write)(struct export_view *view, struct out *out, struct proton_error *err);
};

/* NULL past the last one. */
const struct export_view_format *export_view_format_at(size_t index);

int export_folded(struct export_view *view, struct out *out, struct proton_error *err);
int export_speedscope(struct export_view *view, struct out *out, struct proton_error *err);
int export_pprof(struct export_view *view, struct out *out, struct proton_error *err);
int export_html(struct export_view *view, struct out *out, struct proton_error *err);
int export_csv(struct export_view *view, struct out *out, struct proton_error *err);

/*
 * The shown node that follows `node` depth first, children in the order of the file; 0 at the end.
 * *level counts from 0, the root.
 */
uint32_t export_view_next(const struct export_view *view, uint32_t node, uint32_t *level);

/*
 * Appends a frame's name for formats of lines and separators: what would end a line or part a path
 * (';') is written \xNN, and so are bytes that are no UTF-8.
 */
void export_path_name(struct out *out, struct out *scratch, const struct export_view *view,
		      uint32_t frame);

/*
 * What the nodes add themselves on one device, or with EXPORT_ALL_DEVICES by all kernels: `own` of
 * a metric that has a field, per node, 0 where there is nothing; malloc'd, NULL when memory is out.
 */
#define EXPORT_ALL_DEVICES UINT32_MAX
double *export_device_own(const struct export_view *view, const struct export_metric *metric,
			  uint32_t device);
/* True for each device on which something ran, malloc'd; *count of them. */
bool *export_used_devices(const struct export_view *view, size_t *count);

/*
 * E_RANGE if the path of every frame that is written, at 2 bytes a level, is too much already.
 * `is_table`: frames without a value are written too.
 */
int export_check_paths(const struct export_view *view, bool is_table, struct proton_error *err);

#endif
