/*
 * Closed loop on kernel time: launches of a kernel rotate between variants of it, the plain kernel
 * and kernels with different sets of automatic scopes. Their times say what each set costs.
 *
 * Scopes are numbered in the order in which the compiler prefers them, and a set is a range of
 * numbers. The first set was predicted by the compiler to be within the budget, the second
 * has the others. A set over the budget is split into halves, which are tried in turn; one scope
 * over the budget is dropped. Locked inside; never calls a driver.
 */
#pragma once

#include "base/buf.h"

/* The plain kernel is variant 0, and the first set, with which a loop begins, variant 1. */
#define LOOP_PLAIN 0u
#define LOOP_FIRST 1u

struct loop;

struct loop_price {
	double percent; /* the mean over the sets of the rotation, in the plain kernel's time */
	double low, high;
	uint32_t launches; /* that were timed */
	uint32_t sets;
	uint32_t scopes; /* in these sets */
	bool is_measured;
	bool has_dropped; /* scopes are omitted because of their price */
	bool is_decided;  /* no set is still to be tried */
};

/*
 * `names` of all scopes, one per line, of which variant 1 has the first `first`; `budget` in
 * percent; `decisions` of an earlier process, which are ignored if they do not fit, or NULL. NULL
 * if out of memory. Loops are never freed, like the kernels that have them.
 */
struct loop *closed_loop_new(const char *names, uint32_t first, uint32_t budget,
			     const char *decisions);
/* Appends the decisions once all sets are decided; false if there are none since the last call. */
bool closed_loop_decisions(struct loop *loop, struct out *out);
/*
 * The next set to compile, until closed_loop_made(); false if there is none now. The numbers of its
 * scopes are equal for the plain kernel.
 */
bool closed_loop_wanted(struct loop *loop, uint32_t *variant_out, uint32_t *first_out,
			uint32_t *end_out);
/* The set was compiled. Not `is_usable`: it cannot be, or its code needs more of the GPU. */
void closed_loop_made(struct loop *loop, uint32_t variant, bool is_usable);
/* A launch of the variant took so long. */
void closed_loop_time(struct loop *loop, uint32_t variant, uint64_t ns);
/*
 * Chooses the variant of the next launch. Also says if there is a set to compile, or a caller that
 * should ask for the choice, because it last asked for the usual variant.
 */
uint32_t closed_loop_choose(struct loop *loop, bool *is_wanted_out);
/*
 * The latest choice, which the caller makes. `is_usual`: the variant for launches that are not
 * measured, such as in graphs, until the next choice.
 */
uint32_t closed_loop_choice(struct loop *loop, bool is_usual);
/* True if launches should be timed now. */
bool closed_loop_is_timed(struct loop *loop);
/* The launches for which one launch of a set stands: a rotation has each variant once. */
uint32_t closed_loop_weight(struct loop *loop);
void closed_loop_price(struct loop *loop, struct loop_price *out);
/* The price as text, or that it is unknown. NULL: the kernel has no loop. */
void closed_loop_write(struct loop *loop, struct out *out);
