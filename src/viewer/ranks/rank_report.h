/*
 * Reports about the ranks of a merged job: messages, tables, CSV and JSON. A report has a table of
 * frames per metric, the table of ranks, and groups of ranks with equal trees.
 */
#pragma once

#include "model/profile.h"
#include "viewer/numbers/gate.h"
#include "viewer/print/report_table.h"
#include "viewer/ranks/rank_numbers.h"

/* Ranks that are not finished, and names that differ. False: some ranks are not finished. */
bool rank_report_state(const struct profile *profile);

#define RANK_ROWS_DEFAULT 30u /* in a printed table of frames */

/* --diff: frames of two jobs, matched by their path. */
struct rank_pair {
	char *path;
	struct rank_row before, after; /* `ranks` 0: the frame is not in that job */
};

struct rank_diff {
	const char *metric;
	struct rank_pair *items; /* the largest change of what could go first */
	size_t count;
};

struct rank_report {
	const struct profile *profile;
	const struct rank_rows *tables; /* of frames, by metric */
	size_t table_count;
	const struct rank_diff *diffs; /* by metric; NULL without --diff */
	const struct rank_groups *groups;
	const struct gate_result *gates; /* NULL: none */
	size_t gate_count;
};

/* Kernel times of a metric such as "time/ms" are explained, others are named. */
void rank_print_about(const struct rank_report *view, const char *metric, struct out *out);
/* The path of a node, malloc'd: in text with the names that the options select, else as stored. */
char *rank_path_for(const struct profile *profile, uint32_t node, const struct report *report);

/*
 * The numbers of a row as members of the current JSON object; `suffix` is the end of the keys of
 * values: "" or "_ns".
 */
void rank_row_json(const struct rank_row *row, const char *suffix, struct json_writer *json);

/*
 * Text: the chosen table, or by default frames, ranks and groups. CSV: the chosen table; tables of
 * frames have all metrics, one after the other. JSON: everything in one object.
 */
void rank_write(const struct rank_report *view, struct report *report);

void rank_diff_init(struct rank_diff *diff, const struct rank_rows *before,
		    const struct rank_rows *after);
void rank_diff_fini(struct rank_diff *diff);

/* Writes the comparisons of the view in the format of the report. */
void rank_diff_write(const struct rank_report *view, struct report *report);

/* The waiting of ranks in collectives. */

#define WAITS_DEFAULT 10u /* contexts in text */

/* True if there are collectives that several ranks took part in. */
bool wait_report_is_there(const struct profile *profile);
/* Some lines per context, the one with the longest waiting first; `limit` contexts. */
void wait_report_text(const struct profile *profile, size_t limit, enum name_style names,
		      struct out *out);
/* The member "waits": all contexts. */
void wait_report_json(const struct profile *profile, struct json_writer *json);
