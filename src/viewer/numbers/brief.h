/*
 * --brief: claims about what makes a profile slow, each with its evidence: a number, its source, an
 * upper bound of what a remedy can gain, and a confidence. brief_rules.c has the kinds of claims.
 *
 * Confidence: "high" if the number is measured, in enough launches (samples, gaps, ...), and its
 * interval is within 10 %; "medium" if it follows from a model of the GPU, or from a tenth as
 * many; else "low". All are low if records were lost or the profile is incomplete.
 */
#pragma once

#include "model/profile.h"
#include "viewer/numbers/utilization.h"
#include "viewer/query/raw_metrics.h"
#include "viewer/viewer_options.h"

#define BRIEF_VERSION 1u   /* the JSON layout, docs/brief.schema.json */
#define BRIEF_PART 0.05    /* minimum of a gain, by the kernel time */
#define BRIEF_SHORT_NS 5e3 /* a kernel as short as the gap before the next */

/* A kernel from all callers. Times in ns. */
struct brief_kernel {
	uint32_t node; /* of brief->kernels */
	const char *stored;
	char *name; /* for users */
	uint64_t count;
	uint64_t recorded; /* fewer if the count is an estimate */
	double total_ns;
	double half_ns; /* half of the 95 % interval; NAN: not known */
	double peak_ns; /* the time at the peak rates; NAN: not known */
};

enum brief_confidence {
	BRIEF_LOW,
	BRIEF_MEDIUM,
	BRIEF_HIGH,
};

struct brief_claim {
	const struct brief_rule *rule;
	const struct brief_kernel *kernel; /* NULL: it is about the whole profile */
	char *text;
	double number;
	double half;       /* of its 95 % interval; 0: it is exact; NAN: not known */
	uint64_t count;    /* what: rule->counted */
	double gain_ns;    /* at most; NAN: not known */
	double gain_half;  /* as a share of the gain: its noise */
	bool is_modeled;   /* the number does not follow from records alone */
	bool is_suspicion; /* its confidence is low, whatever the number */
	enum brief_confidence confidence;
	char *command;
};

struct brief {
	const struct options *options;
	struct profile *profile; /* the tree */
	const uint8_t *state;    /* enum node_state of its nodes */
	struct profile *kernels; /* by name */
	struct metrics metrics;  /* of `kernels` */
	struct util util;
	struct brief_kernel *items; /* by time, the longest first */
	size_t item_count;
	double total_ns;
	uint64_t launches;
	struct brief_claim *claims; /* by gain, the largest first */
	size_t claim_count;
	const char *verdict; /* "none", "one", "tie" or "lost" */
	char *verdict_text;
	const char *unknown[5]; /* not recorded; NULL at the end */
};

/* A kind of claim. */
struct brief_rule {
	const char *kind; /* in JSON; never changed */
	const char *title;
	/* True if there is a claim; `kernel` is NULL if it is about the profile. */
	bool (*find)(const struct brief *brief, const struct brief_kernel *kernel,
		     struct brief_claim *claim);
	bool is_of_profile;
	bool is_general; /* where the time is, not why: left out if the reason is known */
	const char *unit, *record, *counted;
	uint64_t enough; /* the count for a high confidence */
	const char *assumption;
	const char *view; /* options of the command that shows it; the kernel's follow */
};

extern const struct brief_rule brief_rules[]; /* the last has no kind */

/* Release with brief_fini(), even after an error. */
int brief_init(struct brief *brief, struct profile *profile, const uint8_t *state,
	       const struct options *options, struct proton_error *err);
void brief_fini(struct brief *brief);
