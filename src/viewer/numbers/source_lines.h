/*
 * --source: samples of PC sampling by kernel and source line. They are read from the tree, where
 * the lines of a kernel are below it (KERNEL / file:line@function), the outermost call first.
 * Kernels of the same name are combined, whatever their callers.
 */
#pragma once

#include "base/err.h"
#include "model/profile.h"
#include "model/stall_reasons.h"

/* More than any GPU has; further ones are not shown. */
#define SOURCE_REASONS_MAX 48u

struct source_reason {
	uint32_t metric;                  /* index of profile->metrics */
	const char *name;                 /* "long_scoreboard" */
	const struct stall_reason *known; /* or NULL */
};

/* Samples of a line or a kernel, and those of them with each reason. */
struct source_samples {
	uint64_t all;
	uint64_t by_reason[SOURCE_REASONS_MAX];
};

/* A line with the code that was inlined there. */
struct source_line {
	uint32_t file; /* string of the profile; 0: the line is not known */
	uint32_t line;
	bool is_inlined; /* no sample is in the line without being in another one above it */
	struct source_samples samples;
	uint64_t file_samples; /* the samples of the lines of its file that are not inlined */
};

struct source_kernel {
	uint32_t frame; /* its name */
	struct source_samples samples;
	uint64_t apportioned;      /* samples that were divided between contexts by kernel time */
	struct source_line *lines; /* by file, largest number of samples first, and line */
	size_t line_count;
};

struct source_report {
	struct profile *profile;
	struct source_reason reasons[SOURCE_REASONS_MAX];
	size_t reason_count;
	struct source_kernel *kernels; /* by samples, largest number first */
	size_t kernel_count;
	uint64_t samples; /* of all kernels, selected or not */
};

/*
 * `state`: enum node_state of each node; nodes that are not shown do not count. `kernel`: a regular
 * expression for the names of kernels, or NULL; E_INVALID: it is not one. Release with
 * source_report_fini(), even after an error.
 */
int source_report_init(struct source_report *report, struct profile *profile, const uint8_t *state,
		       const char *kernel, struct proton_error *err);
void source_report_fini(struct source_report *report);

/* Puts lines that were added at the end in their places; without those that have samples, too. */
void source_lines_settle(struct source_kernel *kernel);

/* The reasons of waiting that have samples, largest number first; returns how many. */
size_t source_waits(const struct source_report *report, const struct source_samples *samples,
		    uint32_t waits[SOURCE_REASONS_MAX]);

/* The number of a reason of the samples (a string); reason_count if it has none. */
uint32_t source_reason_of(const struct source_report *report, uint32_t name);

/* The line of a kernel where a reason has its maximum; NULL: no line is known. */
const struct source_line *source_hottest(const struct source_kernel *kernel, uint32_t reason);
