/*
 * Why a time changed between the sides of --diff: the first cause that both
 * profiles show. It is about the kernel with the largest change of its total time.
 */
#pragma once

#include "base/hash.h"
#include "model/profile.h"

enum why_side {
	WHY_BEFORE,
	WHY_AFTER,
	WHY_SIDES
};

/* Noise of the change. */
enum why_noise {
	WHY_NOISE_UNKNOWN, /* one run of a side */
	WHY_NOISE_NOT,
	WHY_NOISE_ONLY, /* the interval of the change contains 0 */
};

struct why {
	struct why_kernel *kernels;
	size_t count;
	struct hash_table index; /* by name; index + 1 */
	struct why_machine *machines[WHY_SIDES];
	size_t runs[WHY_SIDES];
};

void why_fini(struct why *why);
/* Adds a run of a side. */
void why_add(struct why *why, enum why_side side, const struct profile *profile);
/* The sentence, malloc'd; NULL: there are no kernels on a side, or their times are the same. */
char *why_sentence(const struct why *why, enum why_noise noise);
