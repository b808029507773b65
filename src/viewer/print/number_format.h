/* Number formats for columns: one format per column, which aligns the decimal points. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_FORMAT_BYTES 64

struct number_format {
	int decimals;
	bool is_scientific; /* too large or too small for decimals */
	double tiny;        /* decimals would show smaller magnitudes as zero, which they are not */
};

/* The format for values up to the magnitude `largest`; about five significant digits. */
struct number_format number_format_for(double largest, bool is_integer);

/* Writes a number, "-" for NAN and infinities; returns its length. */
size_t number_format_write(char text[NUMBER_FORMAT_BYTES], struct number_format style,
			   double value);
