/*
 * Causes of stalls in a function of a cubin: the instructions that produce what another waits for.
 *
 * A warp waits where a value is used, not where it is made. Loads and other operations of variable
 * latency set one of six scoreboards, and each instruction has a mask of scoreboards that it waits
 * for: both are in the machine code (bits 105 to 125). So the producers are the instructions that
 * set one of these scoreboards on a way to the use, after the last wait for that scoreboard. If the
 * use names registers of some producers, the others do not count. Copies and matrix multiplications
 * in groups, mbarriers and barriers of threads are followed by their operations.
 */
#pragma once

#include "symbol/sass.h"

/* By what a stall reason means. */
enum sass_wait {
	SASS_WAIT_NONE,       /* its cause is the instruction itself */
	SASS_WAIT_SCOREBOARD, /* results of variable latency, copies, mbarriers */
	SASS_WAIT_LATENCY,    /* results of arithmetic */
	SASS_WAIT_BARRIER,    /* other warps, since the barrier before */
	SASS_WAIT_STORES,     /* before the exit */
	SASS_WAIT_MMA,
	SASS_WAITS,
};

struct sass_causes;

/* `sass` must stay valid. A function of AMD code, or without instructions, has no causes. */
int sass_causes_open(const struct sass *sass, uint32_t function, struct sass_causes **causes_out,
		     struct proton_error *err);
void sass_causes_close(struct sass_causes *causes);

/*
 * The producers of what `pc` waits for: offsets in ascending order, valid until the next call;
 * returns how many. 0: none is known, so it waits for itself.
 */
size_t sass_causes_of(struct sass_causes *causes, uint64_t pc, enum sass_wait wait,
		      const uint32_t **pcs_out);
/*
 * The first instruction of the block that contains `pc`: the instructions of a block are executed
 * equally often.
 */
uint32_t sass_causes_block(const struct sass_causes *causes, uint64_t pc);
