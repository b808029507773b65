/*
 * Output formats of proton-viewer: one table, from which --export, its help, its error messages and
 * the choice by suffix are made. A new format is one row here and one file.
 */
#pragma once

#include "base/err.h"
#include "base/option_table.h"
#include "viewer/print/report_table.h"

struct export_view;
struct profile;
struct trace_part;

/* The input of a format, which determines the options that it supports. */
enum exporter_input {
	EXPORTS_TABLE,   /* the printed tree or table, with all options */
	EXPORTS_VIEW,    /* selected frames and metrics (export/export_view.h) */
	EXPORTS_REPORT,  /* the same with derived metrics, kernels, devices, and a baseline */
	EXPORTS_PROFILE, /* a whole profile: nothing is selected */
	EXPORTS_TRACE,   /* a whole profile with its trace events */
	EXPORTS_JOB,     /* a whole profile, merged as ranks (viewer/ranks/rank_job_input.h) */
	EXPORTS_RANKS,   /* the profiles of all ranks of a job (viewer/ranks/rank_views.h) */
};

#define EXPORT_PARQUET "parquet"

struct exporter {
	const char *name;   /* case-insensitive */
	const char *suffix; /* of files that select the format, without the dot */
	const char *help;
	enum exporter_input input;
	bool is_binary;    /* must not be printed on a terminal */
	bool needs_weight; /* shows metrics as sizes and rejects those that are not additive */
	bool takes_one;    /* supports one metric, or one before and after */
	bool has_paths;    /* writes the path of each frame, instead of only its parent */
	enum report_format format; /* for a table */
	/* One of them, unless the input is a table or the ranks. */
	int (*write)(const struct profile *profile, struct out *out, struct proton_error *err);
	void (*write_view)(struct export_view *view, struct out *out);
	/* Traces: appends one process of several (viewer/ranks/rank_traces.c). */
	int (*write_part)(const struct profile *profile, const struct trace_part *part,
			  struct out *out, struct proton_error *err);
};

/* Prints the formats, one per line, for --help. */
void exporters_print(void);

/* The options about the output: format and file. */
struct output_options {
	const struct exporter *exporter;    /* NULL: text for users */
	const char *option;                 /* that selected the exporter: "--csv" */
	const char *path;                   /* NULL: standard output */
	bool no_clobber;                    /* an existing `path` is an error */
	const struct report_target *target; /* instead of a path; set by programs, not by options */
};

/* The options with their defaults, set by the rows. */
struct option_table output_options_init(struct output_options *output);

/* Without an exporter, the suffix of the path selects it. OPTIONS_BAD: no format has the suffix. */
enum options_result output_options_finish(struct output_options *output, struct proton_error *err);

/* True if users read the output: numbers are rounded and names are short. */
static inline bool output_is_for_users(const struct output_options *output)
{
	return !output->exporter || output->exporter->format == REPORT_MARKDOWN;
}

/* True if the output is an export, not the printed table. */
static inline bool output_is_export(const struct output_options *output)
{
	return output->exporter && output->exporter->input != EXPORTS_TABLE;
}
