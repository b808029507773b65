/* Views of kernels and their claims, as text for users, and CSV and JSON for programs. */
#ifndef VIEWER_PRINT_PRINT_KERNELS_H
#define VIEWER_PRINT_PRINT_KERNELS_H

#include "viewer/numbers/brief.h"
#include "viewer/numbers/source_lines.h"
#include "viewer/numbers/warps_report.h"
#include "viewer/print/report_table.h"

/* --warps: writes a struct warps_report. */
void warps_write(const void *warps, struct report *report);

/* --source: writes a struct source_report. */
void source_write(const void *source, struct report *report);
/* Prints why there is nothing to report, and how to record it. */
void source_report_nothing(const struct options *options);

/* --brief: writes a struct brief. */
void brief_write(const void *brief, struct report *report);

#endif
