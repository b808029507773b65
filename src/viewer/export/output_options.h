/* Options of proton-viewer about the output: format and file. */
#ifndef VIEWER_EXPORT_OUTPUT_OPTIONS_H
#define VIEWER_EXPORT_OUTPUT_OPTIONS_H

#include <stdbool.h>

#include "base/option_table.h"
#include "viewer/export/exporters.h"

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

/* True if the output is an export, not the printed table. */
static inline bool output_is_export(const struct output_options *output)
{
	return output->exporter && output->exporter->input != EXPORTS_TABLE;
}

#endif
