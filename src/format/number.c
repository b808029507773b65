/* Conversion between doubles and decimal text. */
#include "format/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Integers below this are written without an exponent; all of them are exact. */
#define PLAIN_INTEGER_MAX 9007199254740992.0

/* printf() and strtod() follow the program's locale, which may have a decimal comma. */
static locale_t c_locale;

static void make_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t get_c_locale(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_c_locale);
	return c_locale;
}

static size_t from_integer(double value, char *text)
{
	uint64_t rest = (uint64_t)fabs(value);
	char digits[20];
	size_t at = sizeof(digits);
	size_t length = 0;

	do {
		digits[--at] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (signbit(value))
		text[length++] = '-';
	memcpy(text + length, digits + at, sizeof(digits) - at);
	length += sizeof(digits) - at;
	memcpy(text + length, ".0", 2);
	return length + 2;
}

/*
 * Most other numbers are times in ms or us: multiples of 1e-6. With at most 15 digits, such a text
 * is what "%.15g" writes, which has an exponent below 1e-4. Returns 0 for all others.
 */
static size_t from_millionths(double value, char *text)
{
	double millionths = rint(fabs(value) * 1e6);
	size_t length;
	uint64_t rest;

	if (!(fabs(value) >= 1e-4 && millionths < 1e15 && millionths / 1e6 == fabs(value)))
		return 0;
	rest = (uint64_t)millionths % 1000000;
	length = from_integer(trunc(value), text) - 1;
	for (uint64_t unit = 100000; rest; unit /= 10) {
		text[length++] = (char)('0' + rest / unit);
		rest %= unit;
	}
	return length;
}

size_t number_from_double(double value, char text[NUMBER_TEXT_BYTES])
{
	locale_t c;
	locale_t old = (locale_t)0;
	int length = 0;

	if (fabs(value) < PLAIN_INTEGER_MAX && value == floor(value))
		return from_integer(value, text);
	length = (int)from_millionths(value, text);
	if (length)
		return (size_t)length;
	c = get_c_locale();
	if (c)
		old = uselocale(c);
	for (int digits = 15; digits <= 17; digits++) {
		length = snprintf(text, NUMBER_TEXT_BYTES, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	if (c)
		uselocale(old);
	if (!memchr(text, '.', (size_t)length) && !memchr(text, 'e', (size_t)length)) {
		memcpy(text + length, ".0", 2);
		length += 2;
	}
	return (size_t)length;
}

double number_to_double(const char *text)
{
	locale_t c = get_c_locale();

	return c ? strtod_l(text, NULL, c) : strtod(text, NULL);
}
