/*
 * Colors by share of the first column, which highlight the hot path. Only the terminal's own
 * sixteen colors are used, because they suit its background.
 */
#include <math.h>

#include "viewer/print/table_model.h"

static const struct {
	double min_percent;
	const char *escape;
} bands[PAINT_BANDS] = {
	{50, "\033[1;31m"}, /* bold red */
	{25, "\033[33m"},   /* yellow */
	{10, "\033[32m"},   /* green */
	{1, ""},
	{-INFINITY, "\033[2m"}, /* faint */
};

static const char *escape_of(const struct table_model *table, enum paint paint, size_t band)
{
	if (!table->term.has_color)
		return "";
	switch (paint) {
	case PAINT_HEADER:
		return "\033[1m";
	case PAINT_FAINT:
		return "\033[2m";
	case PAINT_BAND:
		return band < PAINT_BANDS ? bands[band].escape : "";
	}
	return "";
}

void paint(struct out *out, const struct table_model *table, enum paint paint, size_t band)
{
	out_text(out, escape_of(table, paint, band));
}

void unpaint(struct out *out, const struct table_model *table, enum paint paint, size_t band)
{
	out_text(out, *escape_of(table, paint, band) ? "\033[0m" : "");
}

struct bands bands_of(const struct table_model *table)
{
	const struct metric_column *column = &table->columns[0];
	struct bands result = {0};

	if (!column->values)
		return result;
	result.is_of_root = column->is_additive && column->is_inclusive;
	result.is_of_sum = column->is_additive && !column->is_inclusive;
	if (result.is_of_root)
		result.whole = column->values[0];
	for (size_t i = 0; !result.is_of_root && i < table->profile->node_count; i++) {
		double value = column->values[i];

		if (!isfinite(value))
			continue;
		if (result.is_of_sum)
			result.whole += value;
		else if (value > result.whole)
			result.whole = value;
	}
	return result;
}

size_t band_of(const struct bands *whole, double value)
{
	size_t band = 0;

	/* A share of zero is neither hot nor cold. */
	if (!isfinite(value) || !(whole->whole > 0))
		return PAINT_BANDS - 2;
	while (band < PAINT_BANDS - 1 && 100 * value / whole->whole < bands[band].min_percent)
		band++;
	return band;
}

double band_min_percent(size_t band)
{
	return bands[band].min_percent;
}
