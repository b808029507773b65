/* Table model shared by all printers: rows, columns and formatting. */
#ifndef VIEWER_PRINT_TABLE_MODEL_H
#define VIEWER_PRINT_TABLE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/print/report_table.h"
#include "viewer/print/terminal.h"
#include "viewer/query/derive.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/raw_metrics.h"

/* Frames that are not printed on a terminal unless --all is given. */
struct table_cut {
	size_t frames;
	double value;   /* of the sort column */
	double percent; /* NAN: not a share */
};

struct table_model {
	const struct profile *profile;
	const struct metrics *metrics;
	const uint8_t *state; /* per node, enum node_state */
	const struct metric_column *columns;
	size_t column_count;    /* 0: --csv or --json without metrics; the first one is colored */
	size_t sort_column;     /* siblings are sorted by it, largest first */
	bool by_magnitude;      /* sorted by absolute values */
	size_t depth;           /* levels to print, counting the root */
	bool is_flat;           /* a table of the nodes below the root */
	size_t rows;            /* maximum number of rows of a flat table; 0: all */
	size_t base_runs, runs; /* number of files compared; 0: no comparison */
	const char *why;        /* the time changed; NULL: nothing to say */
	const struct gate_result *gates;
	size_t gate_count;
	bool is_default; /* columns that do not fit the terminal may be omitted */
	enum name_format format;
	enum name_style names;
	struct table_cut cut;
	struct term term;
};

/* Appends the header line: command, duration, devices; nothing if unknown. */
void header_write(struct out *out, const struct profile *profile, bool has_utf8);
void tree_print(const struct table_model *table, struct out *out);
/* A table of GitHub's Markdown. */
void tree_print_markdown(const struct table_model *table, struct out *out);
void sorted_print(const struct table_model *table, struct out *out);
/* As CSV or JSON. */
void table_write(const struct table_model *table, struct report *report);

/* Appends a node's text in a text column; nothing if it has none. */
void table_text(struct out *out, const struct table_model *table,
		const struct metric_column *column, uint32_t node);

#endif
