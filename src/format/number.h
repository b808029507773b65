/* Doubles as text, both ways, exact and whatever the locale of the program around us. */
#ifndef FORMAT_NUMBER_H
#define FORMAT_NUMBER_H

#include <stddef.h>

#define NUMBER_TEXT_BYTES 32

/*
 * The shortest of 15, 16 or 17 significant digits that reads back as `value`, always with a point
 * or an exponent ("2.0", "1e+20"). `value` must be finite. Returns the length; not terminated.
 */
size_t number_from_double(double value, char text[NUMBER_TEXT_BYTES]);

/*
 * The double nearest to a decimal number written as in JSON. `text` must be terminated behind it.
 * Too large gives infinity.
 */
double number_to_double(const char *text);

#endif
