/* --source: samples of PC sampling per kernel and source line, as text, CSV and JSON. */
#ifndef VIEWER_PRINT_PRINT_SOURCE_H
#define VIEWER_PRINT_PRINT_SOURCE_H

#include "viewer/numbers/source_lines.h"
#include "viewer/print/report_table.h"
#include "viewer/viewer_options.h"

/* Writes a struct source_report. */
void source_write(const void *source, struct report *report);

/* Prints why there is nothing to report, and how to record it. */
void source_report_nothing(const struct options *options);

#endif
