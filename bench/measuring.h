/* Common parts of the C benchmarks: command line, figures, errors. */
#pragma once

#define ROUNDS_MAX 101

/* Prints an error message and ends the program with status 2. */
void die(const char *what) __attribute__((noreturn));
/* Number of measurements from the command line; `usual` if it is NULL or invalid. */
int rounds_of(const char *text, int usual);
/* One figure, "name<TAB>unit<TAB>value". */
void print_result(const char *name, const char *unit, double value);
/* The same of the median; sorts the values. */
void print_median(const char *name, const char *unit, double *values, int count);
