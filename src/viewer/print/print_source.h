/* --source: samples of PC sampling per kernel and source line, as text, CSV and JSON. */
#ifndef VIEWER_PRINT_PRINT_SOURCE_H
#define VIEWER_PRINT_PRINT_SOURCE_H

#include "viewer/numbers/source_lines.h"
#include "viewer/viewer_options.h"

void source_print(const struct source_report *report, const struct options *options,
		  struct out *out);
void source_csv(const struct source_report *report, const struct options *options, struct out *out);
void source_json(const struct source_report *report, const struct options *options,
		 struct out *out);

/* Prints why there is nothing to report, and how to record it. */
void source_report_nothing(const struct options *options);

#endif
