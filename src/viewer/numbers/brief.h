/*
 * --brief: claims about what makes a profile slow, each with its evidence: a number, where it comes
 * from, the most that a remedy can gain, and a confidence. brief_rules.c has the kinds of claims.
 *
 * Confidence: "high" if the number is measured, in enough launches (samples, gaps, collectives), and
 * its interval is within 10 %; "medium" if it follows from a model of the GPU, or from a tenth as
 * many; else "low". All are low if records were lost or the profile is incomplete.
 */
#ifndef VIEWER_NUMBERS_BRIEF_H
#define VIEWER_NUMBERS_BRIEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/profile.h"
#include "viewer/numbers/utilization.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/viewer_options.h"

#define BRIEF_VERSION 1u   /* of the JSON layout, docs/brief.schema.json */
#define BRIEF_CLAIMS 8u    /* in text: four lines each, of 40 */
#define BRIEF_PART 0.05    /* of the kernel time: what is less is not worth a claim */
#define BRIEF_NEAR 0.8     /* of the peak: a kernel that cannot gain much */
#define BRIEF_SHORT_NS 5e3 /* a kernel as short as the gap before the next */

enum brief_confidence {
	BRIEF_LOW,
	BRIEF_MEDIUM,
	BRIEF_HIGH,
};
extern const char *const brief_words[]; /* by confidence */

/* A kernel from all callers. Times in ns. */
struct brief_kernel {
	uint32_t node; /* of brief->kernels */
	const char *stored;
	char *name; /* for users */
	uint64_t count;
	double total_ns;
	double half_ns; /* half of the 95 % interval; NAN: not known */
	double peak_ns; /* the time at the peak rates; NAN: not known */
};

struct brief_claim {
	const struct brief_rule *rule;
	const struct brief_kernel *kernel; /* NULL: it is about the whole profile */
	char *text;
	double number, low, high; /* low and high: the 95 % interval; NAN: not known */
	const char *unit;
	const char *record; /* what was recorded */
	uint64_t count;     /* and how many of `counted` */
	const char *counted;
	double gain_ns; /* at most; NAN: not known */
	double half_ns; /* of the interval of the gain */
	const char *assumption;
	enum brief_confidence confidence;
	char *command;
};

enum brief_verdict {
	BRIEF_NONE, /* nothing to gain was found */
	BRIEF_ONE,
	BRIEF_TIE,
	BRIEF_LOST, /* records, or the end of the profile */
};
extern const char *const brief_verdicts[];

struct brief {
	const struct options *options;
	struct profile *profile; /* the tree */
	const uint8_t *state;    /* enum node_state of its nodes */
	struct profile *kernels; /* by name */
	struct metrics metrics;  /* of `kernels` */
	struct util util;
	struct brief_kernel *items; /* by time, the longest first */
	size_t item_count;
	double total_ns, half_ns;
	uint64_t launches;
	struct brief_claim *claims; /* by gain, the largest first */
	size_t claim_count, claim_capacity;
	enum brief_verdict verdict;
	char *verdict_text;
	const char *unknown[5]; /* what was not recorded; NULL at the end */
};

/* A kind of claim: makes one about a kernel or, with `kernel` NULL, about the profile. */
struct brief_rule {
	const char *kind; /* in JSON; never changed */
	const char *title;
	bool (*find)(const struct brief *brief, const struct brief_kernel *kernel,
		     struct brief_claim *claim);
	bool is_of_profile;
	bool is_general;         /* where the time is, not why: left out if the reason is known */
	const char *view;        /* options of the command that shows it */
	const char *with_kernel; /* the option that gets the kernel; NULL: none */
};

extern const struct brief_rule brief_rules[];
extern const size_t brief_rule_count;

/* Release with brief_fini(), even after an error. */
int brief_init(struct brief *brief, struct profile *profile, const uint8_t *state,
	       const struct options *options, struct proton_error *err);
void brief_fini(struct brief *brief);

/* The longest kernel with this stored name; NULL: none. */
const struct brief_kernel *brief_kernel_named(const struct brief *brief, const char *stored);
/* By the rules above; `enough`: how many are enough. `relative`: the interval by the number. */
enum brief_confidence brief_judge(bool is_measured, uint64_t count, uint64_t enough,
				  double relative);

#endif
