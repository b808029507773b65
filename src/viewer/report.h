/* The kernels and devices of a profile, for the HTML report. */
#ifndef VIEWER_REPORT_H
#define VIEWER_REPORT_H

#include "export/report.h"
#include "viewer/metrics.h"

/* `shown`: per node, what counts. To be released with report_fini(). */
void report_init(struct export_report *report, const struct metrics *metrics, const uint8_t *shown);
void report_fini(struct export_report *report);

#endif
