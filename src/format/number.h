/* Conversion between doubles and decimal text: exact, and independent of the program's locale. */
#pragma once

#include <stddef.h>

#define NUMBER_TEXT_BYTES 32

/*
 * The shortest of 15, 16 or 17 significant digits that reads back as `value`, always with a point
 * or an exponent ("2.0", "1e+20"). `value` must be finite. Returns the length; there is no NUL.
 */
size_t number_from_double(double value, char text[NUMBER_TEXT_BYTES]);

/*
 * The double nearest to a decimal number in JSON syntax. `text` must be NUL-terminated. Numbers
 * that are too large give infinity.
 */
double number_to_double(const char *text);
