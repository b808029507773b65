/* --warps: tables for users, and CSV and JSON for programs. */
#ifndef VIEWER_PRINT_PRINT_WARPS_H
#define VIEWER_PRINT_PRINT_WARPS_H

#include "viewer/numbers/warps_report.h"

void warps_print(const struct warps_report *report, const struct options *options, struct out *out);
void warps_csv(const struct warps_report *report, const struct options *options, struct out *out);
void warps_json(const struct warps_report *report, const struct options *options, struct out *out);

#endif
