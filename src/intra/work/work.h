/*
 * The work of a kernel in one launch: its floating-point operations and the bytes that it accesses,
 * counted from its TTIR and the launch's arguments. Nothing is guessed: numbers that depend on data
 * are between bounds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/status.h>

#define WORK_WIDTHS 5u /* 4, 8, 16, 32, 64 bits */

/* Known if both are equal; INFINITY: no bound. */
struct work_range {
	double low;
	double high;
};

struct work {
	/* By the width of the operands: of matrix multiplications, and of everything else. */
	struct work_range dots[WORK_WIDTHS];
	struct work_range others[WORK_WIDTHS];
	/* Bytes of all loads, and of all stores, that masks permit. */
	struct work_range requested[2];
	/* As above, with each byte counted once: the minimum to be moved. */
	struct work_range compulsory[2];
};

struct work_argument {
	bool is_known;
	int64_t value;
};

struct work_launch {
	int64_t grid[3];
	/* As the parameters in the TTIR: without constants, and descriptors in their parts. */
	const struct work_argument *arguments;
	uint32_t argument_count;
};

struct program;

/* The kernel of TTIR, to be released with work_free(). E_UNSUPPORTED, E_NOMEM. */
int work_read(const char *text, size_t length, struct program **out, struct proton_error *err);
/* E_INVALID if the launch does not fit the kernel; E_NOMEM. */
int work_count(const struct program *program, const struct work_launch *launch, struct work *out,
	       struct proton_error *err);
void work_free(struct program *program);
