/*
 * The table of stall reasons. Names are CUPTI's without "smsp__pcsamp_warps_issue_", and for AMD
 * upstream Proton's.
 */
#include "model/stall_reasons.h"

#include <strings.h>

#include "base/array.h"
#include "model/samples.h"

static const struct stall_reason reasons[] = {
	{"alu_dependency", "results of arithmetic", false, SASS_WAIT_NONE},
	{"arbiter_win_ex_stall", "busy execution pipes", false, SASS_WAIT_NONE},
	{"barrier", "other warps at a barrier", false, SASS_WAIT_BARRIER},
	{"branch_resolving", "branch targets", false, SASS_WAIT_NONE},
	{"dispatch_stall", "the instruction dispatcher", false, SASS_WAIT_NONE},
	{"drain", "stores before the exit", false, SASS_WAIT_STORES},
	{"gmma", "matrix multiplications (wgmma)", false, SASS_WAIT_MMA},
	{"imc_miss", "constants that are not cached", false, SASS_WAIT_NONE},
	{"internal_instruction", "internal instructions", false, SASS_WAIT_NONE},
	{"lg_throttle", "a full queue of global memory accesses", false, SASS_WAIT_NONE},
	{"long_scoreboard", "global loads", false, SASS_WAIT_SCOREBOARD},
	{"math_pipe_throttle", "busy arithmetic units", false, SASS_WAIT_NONE},
	{"membar", "memory barriers", false, SASS_WAIT_NONE},
	{"mio_throttle", "a full queue of shared memory accesses", false, SASS_WAIT_NONE},
	{"misc", "other causes", false, SASS_WAIT_NONE},
	{"no_instruction", "instructions that are not cached", false, SASS_WAIT_NONE},
	{"no_instructions", "instructions that are not cached", false, SASS_WAIT_NONE},
	{"not_selected", "other warps that are ready too", true, SASS_WAIT_NONE},
	{"selected", "nothing", true, SASS_WAIT_NONE},
	{"other_wait", "other causes", false, SASS_WAIT_NONE},
	{"short_scoreboard", "shared memory or special functions", false, SASS_WAIT_SCOREBOARD},
	{"sleeping", "the end of a sleep", false, SASS_WAIT_NONE},
	{"tex_throttle", "a full queue of texture accesses", false, SASS_WAIT_NONE},
	{"wait", "the latency of arithmetic", false, SASS_WAIT_LATENCY},
	{"waitcnt", "memory accesses (s_waitcnt)", false, SASS_WAIT_NONE},
	{"warpgroup_arrive", "the warpgroup (wgmma)", false, SASS_WAIT_NONE},
};

const struct stall_reason *stall_reason_find(const char *name, size_t length)
{
	const size_t prefix = sizeof(SAMPLES_REASON) - 1;

	if (length > prefix && strncasecmp(name, SAMPLES_REASON, prefix) == 0) {
		name += prefix;
		length -= prefix;
	}
	for (size_t i = 0; i < ARRAY_LENGTH(reasons); i++)
		if (strlen(reasons[i].name) == length &&
		    strncasecmp(name, reasons[i].name, length) == 0)
			return &reasons[i];
	return NULL;
}
