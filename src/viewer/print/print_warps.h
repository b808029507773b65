/*
 * --warps: what the warps of instrumented kernels did to each other, from what a profile holds
 * below each kernel (model/warp_metrics.h). Kernels of one name are one, whoever called them.
 */
#ifndef VIEWER_PRINT_PRINT_WARPS_H
#define VIEWER_PRINT_PRINT_WARPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "viewer/print/terminal.h"
#include "viewer/query/viewer_options.h"

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

/* The metrics they are stored as. */
extern const char *const warps_metrics[WARPS_NUMBERS];

#define WARPS_NO_FRAME UINT32_MAX

/* A kernel, a role of it, or a scope of a role: the last two frames may be WARPS_NO_FRAME. */
struct warps_row {
	uint32_t kernel; /* frames */
	uint32_t role;
	uint32_t scope;
	bool is_async;                /* below <asynchronous>, whose frame `role` is then */
	double number[WARPS_NUMBERS]; /* NAN: not told */
};

/* Rows of one kernel: itself, its roles each with its scopes, its asynchronous work. */
struct warps_kernel {
	struct warps_row *rows;
	size_t count;
	bool has_waits; /* some were recorded */
};

struct warps_report {
	const struct profile *profile;
	struct warps_row *rows;
	size_t count;
	struct warps_kernel *kernels; /* by the cycles of all their recorded CTAs, most first */
	size_t kernel_count;
};

/* `state`: of each node, enum node_state; those that are not shown do not count. */
void warps_report_init(struct warps_report *report, const struct profile *profile,
		       const uint8_t *state);
void warps_report_fini(struct warps_report *report);

/* A role's number: its own, or what its scopes have together; NAN. */
double warps_of_role(const struct warps_kernel *kernel, const struct warps_row *role,
		     enum warps_number number);

void warps_print(const struct warps_report *report, const struct options *options, struct out *out);
void warps_csv(const struct warps_report *report, const struct options *options, struct out *out);
void warps_json(const struct warps_report *report, const struct options *options, struct out *out);

/* True if one of these metrics is asked for: by -m, -t or a gate. */
bool warps_are_asked_for(const struct options *options);
/* Takes what is said of warps out of a profile: what has no values is not shown. */
void warps_strip(struct profile *profile);
/* Why there is nothing to report, and what to record. */
void warps_say_nothing(const struct profile *profile, const struct options *options);

#endif
