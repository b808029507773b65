/*
 * Reports about the ranks of a merged job: messages, tables, CSV and JSON. A report has a table of
 * frames per metric, the table of ranks, and groups of ranks with equal trees.
 */
#ifndef VIEWER_RANKS_RANK_REPORT_H
#define VIEWER_RANKS_RANK_REPORT_H

#include "base/buf.h"
#include "format/json_write.h"
#include "model/profile.h"
#include "viewer/numbers/gate.h"
#include "viewer/query/query_options.h"
#include "viewer/ranks/rank_groups.h"
#include "viewer/ranks/rank_numbers.h"

/* Ranks that are not finished, and names that differ. False: some ranks are not finished. */
bool rank_report_state(const struct profile *profile);

#define RANK_ROWS_DEFAULT 30u /* in a printed table of frames */

struct rank_diff;

struct rank_report {
	const struct profile *profile;
	const struct rank_rows *tables; /* of frames, by metric */
	size_t table_count;
	const struct rank_diff *diffs; /* by metric; NULL without --diff */
	const struct rank_groups *groups;
	const struct gate_result *gates; /* NULL: none */
	size_t gate_count;
	size_t rows;           /* the limit given with -n; 0: none */
	enum name_style names; /* in text */
	enum ranks_table table;
};

/* Kernel times of a metric such as "time/ms" are explained, others are named. */
void rank_print_about(const struct rank_report *report, const char *metric, struct out *out);
/* A value in 10 columns. */
void rank_print_value(struct out *out, double value);

/* For struct rank_output: `report` is a struct rank_report. */
/* As text: the chosen table, or by default frames, ranks and groups. */
void rank_print(const void *report, struct out *out);
/* The chosen table as CSV. Tables of frames have all metrics, one after the other. */
void rank_csv(const void *report, struct out *out);
/* Everything in one object. */
void rank_json(const void *report, struct out *out);

/* The "gates" of a JSON object; nothing without gates. */
void rank_json_gates(const struct rank_report *report, struct json_writer *json);

#endif
