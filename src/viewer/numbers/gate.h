/*
 * Gates: conditions under which the exit status is 3, so that a build can fail when a program
 * becomes slower. A gate fails where its condition is true.
 *
 *   gate   = METRIC op amount [ "in" REGEX ]
 *   op     = "<" | "<=" | ">" | ">="
 *   amount = NUMBER              the value itself
 *          | ("+" | "-") NUMBER  its change against the profile given with --diff
 *          | ("+" | "-") NUMBER "%"
 *
 * Without "in" an inclusive metric is looked at in the root and an exclusive one in every frame
 * that has a value; with it in every frame that matches. A gate that finds nothing to look at is an
 * error, not a pass.
 *
 * Of several runs, the means are looked at. A change that is within noise (repeats.h) does not fail
 * a gate that no change at all would pass: "time > +5%" fails if the mean change is beyond +5 % and
 * the confidence interval does not contain 0. "time > -10%", which asks for an improvement, fails
 * whatever the noise is.
 *
 * A time needs a unit ("time/ms"), unless its change is in percent.
 */
#ifndef VIEWER_NUMBERS_GATE_H
#define VIEWER_NUMBERS_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/profile.h"

enum gate_amount {
	GATE_VALUE,
	GATE_CHANGE,
	GATE_CHANGE_PERCENT,
};

struct gate {
	char *text; /* as it was written */
	char *metric;
	char *pattern; /* NULL: none */
	enum gate_amount kind;
	double amount;     /* with its sign */
	char *amount_text; /* as it was written */
	bool is_above;     /* > or >= */
	bool is_equal_bad;
};

/* What a gate looks at, by node; NAN is no value. */
struct gate_numbers {
	char *label;          /* the metric with its unit; malloc'd */
	const double *before; /* NULL without --diff */
	const double *after;
	const double *low; /* interval of the change; NULL or NAN: not known */
	const double *high;
	bool is_inclusive;
};

/* What it found in one frame. */
struct gate_finding {
	uint32_t node;
	double before, after; /* before: NAN without --diff */
	double low, high;     /* of the change; NAN: not known */
	bool is_failed;
	bool is_noise; /* beyond the limit, but within noise */
};

#define GATE_FINDINGS_MOST 100

struct gate_result {
	const struct gate *gate;
	const char *label;
	size_t checked; /* frames */
	size_t failed;
	size_t within_noise;           /* frames that would have failed without noise */
	struct gate_finding worst;     /* the frame nearest to the limit, or farthest beyond it */
	struct gate_finding *findings; /* the first that failed or are within noise; malloc'd */
	size_t finding_count, finding_capacity;
};

/* E_INVALID with a message. gate_fini() in any case. */
int gate_parse(struct gate *gate, const char *text, struct proton_error *err);
void gate_fini(struct gate *gate);

/* 100 * (after - before) / |before|; 0 if both are 0, infinite if only `before` is. */
double change_percent(double before, double after);

/* The number that the limit is compared with. */
double gate_judged(const struct gate *gate, double before, double after);

/*
 * Checks a gate; gate_result_fini() in any case. E_INVALID: there was nothing to look at, or it is
 * about a change and there is no --diff.
 */
int gate_check(const struct gate *gate, const struct profile *profile, const uint8_t *state,
	       const struct gate_numbers *numbers, struct gate_result *result,
	       struct proton_error *err);
void gate_result_fini(struct gate_result *result);

#endif
