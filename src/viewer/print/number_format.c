/* Number format of a column: digits, decimals and width. */
#include "viewer/print/number_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

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
	else
		length = snprintf(text, NUMBER_FORMAT_BYTES, "%.*f", style.decimals, value);
	return (size_t)length;
}
