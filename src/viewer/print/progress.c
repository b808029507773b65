/*
 * Progress line on standard error. A timer signal writes it, without any work in the main program.
 * The text is prepared in advance, because a signal handler may only call functions such as
 * write(2).
 */
#include "viewer/print/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/message.h"

#define LINE_BYTES 60 /* shorter than any terminal, which allows overwriting it */

static char line[LINE_BYTES + 32]; /* the text, space for two numbers, a carriage return */
static size_t line_length;
static volatile sig_atomic_t seconds;
static volatile sig_atomic_t counted; /* 0: nothing is counted */
static bool is_disabled;

void progress_disable(void)
{
	is_disabled = true;
}

/* snprintf() is not allowed in a signal handler. */
static size_t put_number(char *text, int rest)
{
	char digits[12];
	size_t count = 0, length = 0;

	do {
		digits[count++] = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	while (count)
		text[length++] = digits[--count];
	return length;
}

static void write_line(int number)
{
	int errnum = errno;
	char text[sizeof(line)];
	size_t length = line_length;
	int done = counted;

	memcpy(text, line, length);
	if (done) {
		length += put_number(text + length, done);
		memcpy(text + length, ", ", 2);
		length += 2;
	}
	length += put_number(text + length, ++seconds);
	memcpy(text + length, " s\r", 3);
	if (write(STDERR_FILENO, text, length + 3) < 0)
		seconds--; /* there is no place to report an error */
	errno = errnum;
}

static void set_timer(time_t interval_s)
{
	struct itimerval timer = {{interval_s, 0}, {interval_s, 0}};

	setitimer(ITIMER_REAL, &timer, NULL);
}

void progress_begin(const char *verb, const char *name)
{
	struct sigaction action = {.sa_handler = write_line, .sa_flags = SA_RESTART};
	const char *base = strrchr(name, '/');

	progress_end();
	if (is_disabled || isatty(STDERR_FILENO) != 1)
		return;
	if (strcmp(name, "-") == 0)
		base = "standard input";
	else
		base = base && base[1] ? base + 1 : name;
	int length = snprintf(line, LINE_BYTES, "%s: %s %s ", message_name(), verb, base);
	line_length = length < LINE_BYTES ? (size_t)length : LINE_BYTES - 1;
	for (size_t i = 0; i < line_length; i++)
		if ((unsigned char)line[i] < 0x20 || (unsigned char)line[i] >= 0x7f)
			line[i] = '?';
	sigaction(SIGALRM, &action, NULL);
	set_timer(1);
}

void progress_count(size_t done)
{
	counted = done < SIG_ATOMIC_MAX ? (sig_atomic_t)done : SIG_ATOMIC_MAX;
}

void progress_end(void)
{
	char blank[sizeof(line)];

	counted = 0;
	if (is_disabled)
		return;
	set_timer(0);
	if (!seconds)
		return;
	seconds = 0;
	memset(blank, ' ', sizeof(blank));
	blank[sizeof(blank) - 1] = '\r';
	if (write(STDERR_FILENO, blank, sizeof(blank)) < 0)
		return;
}
