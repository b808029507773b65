/* Numbers and literals of Chrome traces, formatted by hand because a trace has millions of them. */
#ifndef EXPORT_CHROME_TEXT_H
#define EXPORT_CHROME_TEXT_H

#include <stdint.h>
#include <string.h>

static inline char *put_u64(char *at, uint64_t value)
{
	char digits[20];
	size_t count = 0;

	do {
		digits[count++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (count)
		*at++ = digits[--count];
	return at;
}

/* Writes nanoseconds as microseconds with three decimals. */
static inline char *put_us(char *at, uint64_t ns)
{
	uint64_t rest = ns % 1000;

	at = put_u64(at, ns / 1000);
	*at++ = '.';
	*at++ = (char)('0' + rest / 100);
	*at++ = (char)('0' + rest / 10 % 10);
	*at++ = (char)('0' + rest % 10);
	return at;
}

static inline char *put_text(char *at, const char *text, size_t length)
{
	memcpy(at, text, length);
	return at + length;
}

#define PUT(at, literal) put_text(at, literal, sizeof(literal) - 1)

#endif
