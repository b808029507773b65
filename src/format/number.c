/* Conversion between doubles and decimal text. */
#include "format/number.h"

#include <float.h>
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

/* Writes digits, of which the first is worth 10^exponent; the last is one of the fraction. */
static size_t write_digits(uint64_t digits, int count, int exponent, char *text)
{
	size_t point = exponent < 0 ? 1 : (size_t)exponent + 1;
	size_t length = (size_t)(exponent < 0 ? count - exponent : count) + 1;

	for (size_t i = length; i-- > 0;) {
		text[i] = i == point ? '.' : (char)('0' + digits % 10);
		digits /= i == point ? 1 : 10;
	}
	return length;
}

/*
 * The shortest text of a fraction that "%.15g" to "%.17g" would write without an exponent, at a
 * tenth of their price. 0: another number, or one so near to a limit that the errors of a long
 * double (2^-64 of a product) could decide.
 */
static size_t from_fraction(double value, char *text)
{
	static const long double powers[] = {1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,
					     1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
					     1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L};
	double number = fabs(value);
	double below = (number - nextafter(number, 0)) / 2; /* to the next double */
	double above = (nextafter(number, INFINITY) - number) / 2;
	int exponent = -4;

	if (LDBL_MANT_DIG < 64 || !(number >= 1e-4 && number < 1e15))
		return 0;
	while (number * 1e4L >= powers[exponent + 5])
		exponent++;
	for (int count = 15; count <= 17; count++) {
		long double power = powers[count - 1 - exponent];
		long double scaled = number * power;
		uint64_t digits = (uint64_t)(scaled + 0.5L);
		long double error = fabsl((long double)digits / power - number);

		if (fabsl(fabsl(scaled - (long double)digits) - 0.5L) < 0.01L ||
		    digits >= (uint64_t)powers[count] || digits < (uint64_t)powers[count - 1])
			return 0;
		if (error < 0.99L * below) {
			for (; digits % 10 == 0; digits /= 10)
				count--;
			*text = '-';
			text += value < 0;
			return write_digits(digits, count, exponent, text) + (value < 0);
		}
		if (error < 1.01L * above)
			return 0;
	}
	return 0;
}

size_t number_from_double(double value, char text[NUMBER_TEXT_BYTES])
{
	locale_t old = (locale_t)0;
	int length = 0;

	if (fabs(value) < PLAIN_INTEGER_MAX && value == floor(value))
		return from_integer(value, text);
	length = (int)from_fraction(value, text);
	if (length)
		return (size_t)length;
	locale_t c = get_c_locale();
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
