/*
 * The table of stall reasons. Names are CUPTI's without "smsp__pcsamp_warps_issue_", and for AMD
 * upstream Proton's.
 */
#include "model/stall_reasons.h"

#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "model/samples.h"

static const struct stall_reason reasons[] = {
	{"alu_dependency", "results of arithmetic", false},
	{"arbiter_win_ex_stall", "busy execution pipes", false},
	{"barrier", "other warps at a barrier", false},
	{"branch_resolving", "branch targets", false},
	{"dispatch_stall", "the instruction dispatcher", false},
	{"drain", "stores before the exit", false},
	{"gmma", "matrix multiplications (wgmma)", false},
	{"imc_miss", "constants that are not cached", false},
	{"internal_instruction", "internal instructions", false},
	{"lg_throttle", "a full queue of global memory accesses", false},
	{"long_scoreboard", "global loads", false},
	{"math_pipe_throttle", "busy arithmetic units", false},
	{"membar", "memory barriers", false},
	{"mio_throttle", "a full queue of shared memory accesses", false},
	{"misc", "other causes", false},
	{"no_instruction", "instructions that are not cached", false},
	{"no_instructions", "instructions that are not cached", false},
	{"not_selected", "other warps that are ready too", true},
	{"selected", "nothing", true},
	{"other_wait", "other causes", false},
	{"short_scoreboard", "shared memory or special functions", false},
	{"sleeping", "the end of a sleep", false},
	{"tex_throttle", "a full queue of texture accesses", false},
	{"wait", "the latency of arithmetic", false},
	{"waitcnt", "memory accesses (s_waitcnt)", false},
	{"warpgroup_arrive", "the warpgroup (wgmma)", false},
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
