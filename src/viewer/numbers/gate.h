/*
 * Gates: failure conditions given with --fail-if. If one is true, the exit status is 3, which makes
 * a build fail when a program becomes slower.
 *
 *   gate   = METRIC op amount [ "in" REGEX ]
 *   op     = "<" | "<=" | ">" | ">="
 *   amount = NUMBER              the value itself
 *          | ("+" | "-") NUMBER  its change against the profile given with --diff
 *          | ("+" | "-") NUMBER "%"
 *          | NUMBER "%"                of imbalance (ranks/rank_view.c)
 *
 * Without "in", an inclusive metric is checked in the root and an exclusive one in every frame with
 * a value; with "in", in every matching frame. A gate that finds nothing to check is an error and
 * does not pass.
 *
 * With several runs, means are checked. A change within noise (repeats.h) does not fail a gate that
 * would pass without any change: "time > +5%" fails if the mean change exceeds +5 % and the
 * confidence interval does not contain 0. "time > -10%" demands an improvement and fails regardless
 * of noise.
 *
 * A time needs a unit ("time/ms"), unless its change is in percent.
 */
#pragma once

#include "base/err.h"
#include "format/json_write.h"
#include "model/profile.h"

enum gate_amount {
	GATE_VALUE,
	GATE_CHANGE,
	GATE_CHANGE_PERCENT,
};

struct gate {
	char *text; /* as written */
	char *metric;
	char *pattern; /* NULL: none */
	enum gate_amount kind;
	double amount;     /* with its sign */
	char *amount_text; /* as written */
	bool is_above;     /* > or >= */
	bool is_equal_bad;
	bool is_percent; /* "imbalance > 10%", which only --ranks has */
};

/* The values that a gate checks, by node; NAN: no value. */
struct gate_numbers {
	char *label;          /* the metric with its unit; malloc'd */
	const double *before; /* NULL without --diff */
	const double *after;
	const double *low; /* interval of the change; NULL or NAN: unknown */
	const double *high;
	bool is_inclusive;
};

/* Result of a gate for one frame. */
struct gate_finding {
	uint32_t node;
	double before, after; /* before: NAN without --diff */
	double low, high;     /* of the change; NAN: unknown */
	bool is_failed;
	bool is_noise; /* beyond the limit, but within noise */
};

#define EXIT_GATE 3 /* the exit status if a gate fails */
#define GATE_FINDINGS_MAX 100

struct gate_result {
	const struct gate *gate;
	const char *label;
	size_t checked; /* frames */
	size_t failed;
	size_t within_noise;           /* frames that would have failed without noise */
	struct gate_finding worst;     /* the frame nearest to the limit, or farthest beyond it */
	struct gate_finding *findings; /* the first that failed or are within noise; malloc'd */
	size_t finding_count;
};

/* E_INVALID with a message. gate_fini() in any case. */
int gate_parse(struct gate *gate, const char *text, struct proton_error *err);
void gate_fini(struct gate *gate);

/* 100 * (after - before) / |before|; 0 if both are 0, infinite if only `before` is. */
double change_percent(double before, double after);

/* 100 * part / |whole|; NAN for a whole of 0. */
double share_percent(double part, double whole);

/*
 * Checks a gate; call gate_result_fini() in any case. E_INVALID: there was nothing to check, or the
 * gate is about a change and --diff is missing.
 */
int gate_check(const struct gate *gate, const struct profile *profile, const uint8_t *state,
	       const struct gate_numbers *numbers, struct gate_result *result,
	       struct proton_error *err);
void gate_result_fini(struct gate_result *result);

/* Prints the frames that failed, or would have failed without noise. */
void gate_report_result(const struct gate_result *result, const struct profile *profile);

/* Writes the member "gates" that docs/guide/viewing.md describes. Unknown values are null. */
void gate_write_json(struct json_writer *json, const struct gate_result *results, size_t count,
		     const struct profile *profile);
