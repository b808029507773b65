/* --warps: tables for users, and CSV and JSON for programs. */
#ifndef VIEWER_PRINT_PRINT_WARPS_H
#define VIEWER_PRINT_PRINT_WARPS_H

#include "viewer/numbers/warps_report.h"
#include "viewer/print/report_table.h"

/* Writes a struct warps_report. */
void warps_write(const void *warps, struct report *report);

#endif
