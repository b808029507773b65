/* Number formats for columns: one format per column, which aligns the decimal points. */
#ifndef VIEWER_PRINT_NUMBER_FORMAT_H
#define VIEWER_PRINT_NUMBER_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIGURE_MAX_BYTES 64

struct figure_style {
	int decimals;
	bool is_scientific; /* too large or too small for decimals */
};

/* The format for values up to the magnitude `largest`; about five significant digits. */
struct figure_style figure_style_for(double largest, bool is_integer);

/* Writes a number, "-" for NAN and infinities; returns its length. */
size_t figure_write(char text[FIGURE_MAX_BYTES], struct figure_style style, double value);

#endif
