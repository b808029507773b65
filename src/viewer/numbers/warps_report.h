/*
 * --warps: busy, waiting and idle time of the warps of instrumented kernels, from the metrics
 * stored below each kernel (model/warp_metrics.h). Kernels of the same name are combined, whatever
 * their callers.
 */
#pragma once

#include "viewer/print/terminal.h"
#include "viewer/viewer_options.h"

enum warps_number {
	WARPS_NUMBER_RECORDED_CTAS,
	WARPS_NUMBER_SAMPLED_CTAS,
	WARPS_NUMBER_CTA_CYCLES,
	WARPS_NUMBER_UNSEEN,
	WARPS_NUMBER_WARPS,
	WARPS_NUMBER_WARP_CYCLES,
	WARPS_NUMBER_BUSY,
	WARPS_NUMBER_WAIT,
	WARPS_NUMBER_IDLE,
	WARPS_NUMBER_PATH,
	WARPS_NUMBER_ASYNC,
	WARPS_NUMBER_OVERLAPPED,
	WARPS_NUMBERS
};

/* Stored names of the metrics. */
extern const char *const warps_metrics[WARPS_NUMBERS];

#define WARPS_NO_FRAME UINT32_MAX

/* A kernel, one of its roles, or a scope of a role; the last two frames may be WARPS_NO_FRAME. */
struct warps_row {
	uint32_t kernel; /* frames */
	uint32_t role;
	uint32_t scope;
	bool is_async;                /* below <asynchronous>; then `role` is that frame */
	double number[WARPS_NUMBERS]; /* NAN: unknown */
};

/* Rows of one kernel: the kernel, its roles with their scopes, its asynchronous work. */
struct warps_kernel {
	struct warps_row *rows;
	size_t count;
	bool has_waits; /* some were recorded */
};

struct warps_report {
	const struct profile *profile;
	struct warps_row *rows;
	size_t count;
	struct warps_kernel *kernels; /* by the cycles of all their recorded CTAs, largest first */
	size_t kernel_count;
};

/* `state`: enum node_state of each node; nodes that are not shown do not count. */
void warps_report_init(struct warps_report *report, const struct profile *profile,
		       const uint8_t *state);
void warps_report_fini(struct warps_report *report);

/* A role's number: its own, or the sum of its scopes; NAN if neither exists. */
double warps_of_role(const struct warps_kernel *kernel, const struct warps_row *role,
		     enum warps_number number);

/* True if -m, -t or a gate names one of these metrics. */
bool warps_are_asked_for(const struct options *options);
/* Removes warp data from a profile: nodes without values are not shown. */
void warps_strip(struct profile *profile);
/* Prints why there is nothing to report, and how to record it. */
void warps_report_nothing(const struct profile *profile, const struct options *options);
