/* Number format of a column: digits, decimals and width. */
#include "viewer/print/number_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/array.h"

#define SCIENTIFIC_FROM 1e15 /* from here on a double cannot represent all integers exactly */
#define SCIENTIFIC_BELOW 1e-6
#define DECIMALS_BELOW 1e7 /* columns with smaller values have at least two decimals */

struct number_format number_format_for(double largest, bool is_integer)
{
	struct number_format style = {0};

	if (largest >= SCIENTIFIC_FROM || (largest > 0 && largest < SCIENTIFIC_BELOW)) {
		style.is_scientific = true;
		style.decimals = 4;
	} else if (!is_integer) {
		int magnitude = largest > 0 ? (int)floor(log10(largest)) : 0;

		style.decimals = 4 - magnitude;
		if (style.decimals < 2)
			style.decimals = largest < DECIMALS_BELOW ? 2 : 0;
	}
	style.tiny = 0.5 * pow(10, -style.decimals);
	return style;
}

/*
 * The text of "%.*f", at a tenth of its price; 0 if the product is so large, or its fraction so
 * near to a half, that its rounding could decide.
 */
static int write_fixed(char text[NUMBER_FORMAT_BYTES], int decimals, double value)
{
	static const double powers[] = {1e0, 1e1, 1e2, 1e3, 1e4,  1e5,
					1e6, 1e7, 1e8, 1e9, 1e10, 1e11};
	double scaled = decimals < (int)ARRAY_LENGTH(powers) ? fabs(value) * powers[decimals]
							     : 1e15;
	double fraction = scaled - trunc(scaled);
	char digits[24];
	int at = sizeof(digits);

	if (!(scaled < 1e12) || fabs(fraction - 0.5) < 1e-3)
		return 0;
	uint64_t rest = (uint64_t)scaled + (fraction > 0.5);
	for (int i = 0; rest || i <= decimals; i++, rest /= 10) {
		if (i && i == decimals)
			digits[--at] = '.';
		digits[--at] = (char)('0' + rest % 10);
	}
	if (value < 0)
		digits[--at] = '-';
	memcpy(text, digits + at, sizeof(digits) - (size_t)at);
	return (int)sizeof(digits) - at;
}

size_t number_format_write(char text[NUMBER_FORMAT_BYTES], struct number_format style, double value)
{
	int length;

	if (!isfinite(value))
		length = snprintf(text, NUMBER_FORMAT_BYTES, "-");
	else if (value == 0)
		length = snprintf(text, NUMBER_FORMAT_BYTES, "0");
	else if (style.is_scientific)
		length = snprintf(text, NUMBER_FORMAT_BYTES, "%.*e", style.decimals, value);
	else if (fabs(value) < style.tiny)
		length = snprintf(text, NUMBER_FORMAT_BYTES, "%.0e", value);
	else if (!style.decimals && fabs(value) < SCIENTIFIC_FROM && value == trunc(value))
		length = snprintf(text, NUMBER_FORMAT_BYTES, "%" PRId64, (int64_t)value);
	else if (!(length = write_fixed(text, style.decimals, value)))
		length = snprintf(text, NUMBER_FORMAT_BYTES, "%.*f", style.decimals, value);
	return (size_t)length;
}
