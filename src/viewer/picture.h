/* What is to be printed, and how: shared by everything that prints nodes. */
#ifndef VIEWER_PICTURE_H
#define VIEWER_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/profile.h"
#include "viewer/derive.h"
#include "viewer/metrics.h"
#include "viewer/names.h"
#include "viewer/term.h"

struct picture {
	const struct profile *profile;
	const struct metrics *metrics;
	const uint8_t *state; /* per node, enum node_state */
	const struct metric_column *columns;
	size_t column_count; /* at least 1; siblings are sorted by the first */
	size_t depth;        /* levels to print; the root is the first */
	enum name_format format;
	struct term term;
};

void tree_print(const struct picture *picture, struct out *out);
void sorted_print(const struct picture *picture, struct out *out);
void csv_print(const struct picture *picture, struct out *out);
void list_print(const struct metrics *metrics, struct out *out);

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

/* The band of a value of the first column: 0 is the largest share. See legend in tree_print.c. */
struct bands {
	double whole;    /* 100 % */
	bool is_of_root; /* the whole is what the root has; else the largest value there is */
	bool is_of_sum;  /* the whole is the sum of all nodes */
};

struct bands bands_of(const struct picture *picture);
size_t band_of(const struct bands *bands, double value);
double band_least_percent(size_t band);

#endif
