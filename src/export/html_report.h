/* Kernels, devices and annotated source of the HTML report. */
#ifndef EXPORT_HTML_REPORT_H
#define EXPORT_HTML_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "format/rows.h"

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

#endif
