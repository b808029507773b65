/* Printers of views: as text for users, CSV and JSON for programs, Markdown. */
#pragma once

#include "viewer/numbers/brief.h"
#include "viewer/numbers/source_lines.h"
#include "viewer/numbers/warps_report.h"
#include "viewer/print/report_table.h"
#include "viewer/query/view.h"

/* Appends the header line: command, duration, devices; nothing if unknown. */
void header_write(struct out *out, const struct profile *profile, bool has_utf8);
void tree_print(const struct view *view, struct out *out);
/* A table of GitHub's Markdown. */
void tree_print_markdown(const struct view *view, struct out *out);
void sorted_print(const struct view *view, struct out *out);
/* As CSV or JSON. */
void table_write(const struct view *view, struct report *report);
/* Appends a node's text in a text column; nothing if it has none. */
void table_text(struct out *out, const struct view *view, const struct metric_column *column,
		uint32_t node);

/* --warps: writes a struct warps_report. */
void warps_write(const void *warps, struct report *report);

/* --source: writes a struct source_report. */
void source_write(const void *source, struct report *report);
/* Prints why there is nothing to report, and how to record it. */
void source_report_nothing(const struct options *options);

/* --brief: writes a struct brief. */
void brief_write(const void *brief, struct report *report);
