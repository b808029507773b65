/* Figures of benchmarks. See measuring.h. */
#include "measuring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(2);
}

int rounds_of(const char *text, int usual)
{
	int rounds = text ? atoi(text) : usual;

	return rounds < 1 || rounds > ROUNDS_MAX ? usual : rounds;
}

void print_result(const char *name, const char *unit, double value)
{
	printf("%s\t%s\t%.6g\n", name, unit, value);
	fflush(stdout);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

void print_median(const char *name, const char *unit, double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), compare);
	print_result(name, unit, values[count / 2]);
}
