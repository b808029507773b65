/* What the benchmarks share: their command line, figures, and how they fail. */
#ifndef BENCH_MEASURING_H
#define BENCH_MEASURING_H

#define ROUNDS_MAX 101

/* Says what is wrong on standard error and ends the program with status 2. */
void die(const char *what) __attribute__((noreturn));
/* How often to measure: what the command line says, `usual` where that is NULL or no sense. */
int rounds_of(const char *text, int usual);
/* One figure, "name<TAB>unit<TAB>value". */
void print_figure(const char *name, const char *unit, double value);
/* The same of the median; sorts the values. */
void print_median(const char *name, const char *unit, double *values, int count);

#endif
