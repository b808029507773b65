/*
 * Gates: conditions under which the exit status is 3, so that a build can fail when a program
 * becomes slower.
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
 */
#ifndef VIEWER_GATE_H
#define VIEWER_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/profile.h"
#include "viewer/derive.h"

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
	double amount; /* with its sign */
	bool is_above; /* > or >= */
	bool is_equal_bad;
};

/* E_INVALID with a sentence. gate_fini() in any case. */
int gate_parse(struct gate *gate, const char *text, struct proton_error *err);
void gate_fini(struct gate *gate);

/* 100 * (after - before) / |before|; 0 if both are 0, infinite if only `before` is. */
double change_percent(double before, double after);

/*
 * Checks a gate and says on standard error where it does not hold. `before` is NULL without --diff;
 * NAN is no value. *holds_out: whether it holds. E_INVALID: there was nothing to look at.
 */
int gate_check(const struct gate *gate, const struct profile *profile, const uint8_t *state,
	       const double *before, const double *after, bool is_inclusive, bool *holds_out,
	       struct proton_error *err);

#endif
