/* What is to be printed, and how: shared by everything that prints nodes. */
#ifndef VIEWER_PRINT_TABLE_MODEL_H
#define VIEWER_PRINT_TABLE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/print/terminal.h"
#include "viewer/query/derive.h"
#include "viewer/query/frame_names.h"
#include "viewer/query/raw_metrics.h"

/* Frames that a terminal is spared, unless --all is given. */
struct picture_cut {
	size_t frames;
	double value;   /* of the column that siblings are sorted by */
	double percent; /* NAN: not a share of anything */
};

struct picture {
	const struct profile *profile;
	const struct metrics *metrics;
	const uint8_t *state; /* per node, enum node_state */
	const struct metric_column *columns;
	size_t column_count; /* 0: --csv or --json of nothing; colours show the first one's share */
	size_t sort_column;  /* siblings are sorted by it, largest first */
	bool by_magnitude;   /* sorted by the size of numbers, whatever their sign */
	size_t depth;        /* levels to print; the root is the first */
	bool is_flat;        /* a table of the nodes below the root */
	size_t rows;         /* of a flat table; 0: all */
	size_t base_runs, runs; /* compared; 0: nothing is */
	const struct gate_result *gates;
	size_t gate_count;
	bool is_default; /* columns that a terminal has no room for may be left out */
	enum name_format format;
	enum name_style names;
	struct picture_cut cut;
	struct term term;
};

/* The line above it all: what was run, how long, on what; nothing if nobody knows. */
void header_print(const struct picture *picture, struct out *out);
void tree_print(const struct picture *picture, struct out *out);
void sorted_print(const struct picture *picture, struct out *out);
void csv_print(const struct picture *picture, struct out *out);
void json_print(const struct picture *picture, struct out *out);
void list_print(const struct metrics *metrics, struct out *out);

/* Appends a node's text in a column that has no numbers; nothing if it has none. */
void picture_text(struct out *out, const struct picture *picture,
		  const struct metric_column *column, uint32_t node);

/* Colour. Text between paint() and unpaint() is painted; without colour both do nothing. */
enum paint {
	PAINT_HEADER,
	PAINT_FAINT,
	PAINT_BAND
};
#define PAINT_BANDS 5
#define PAINT_NO_BAND PAINT_BANDS
void paint(struct out *out, const struct picture *picture, enum paint paint, size_t band);
void unpaint(struct out *out, const struct picture *picture, enum paint paint, size_t band);

/* The band of a value of the first column: 0 is the largest share. See legend in print_tree.c. */
struct bands {
	double whole;    /* 100 % */
	bool is_of_root; /* the whole is what the root has; else the largest value there is */
	bool is_of_sum;  /* the whole is the sum of all nodes */
};

struct bands bands_of(const struct picture *picture);
size_t band_of(const struct bands *bands, double value);
double band_least_percent(size_t band);

#endif
