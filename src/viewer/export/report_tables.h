/* The kernels and devices of a profile, for the HTML report. */
#ifndef VIEWER_EXPORT_REPORT_TABLES_H
#define VIEWER_EXPORT_REPORT_TABLES_H

#include "export/html_report.h"
#include "viewer/query/raw_metrics.h"

/* `shown`: per node, true if it counts. Release with report_fini(). */
void report_init(struct export_report *report, const struct metrics *metrics, const uint8_t *shown);
void report_fini(struct export_report *report);

#endif
