/*
 * Gates of --ranks: the grammar of viewer/numbers/gate.h over the numbers of a table of frames.
 *
 *   imbalance > 10% in allreduce     maximum / mean - 1
 *   could_go/ms > 50                 (maximum - mean) x ranks
 *   mean/ms  min/ms  max/ms  ranks
 *
 * Another metric of -m has no unit: "max > 1e9".
 */
#ifndef VIEWER_RANKS_RANK_GATE_H
#define VIEWER_RANKS_RANK_GATE_H

#include "viewer/numbers/gate.h"
#include "viewer/ranks/rank_diff.h"

/*
 * Checks a gate against the first table, and with `diff` not NULL against the change. E_INVALID:
 * an unknown metric, or nothing to check. gate_result_fini() in any case.
 */
int rank_gate_check(const struct gate *gate, const struct rank_rows *rows,
		    const struct rank_diff *diff, struct gate_result *result,
		    struct proton_error *err);

#endif
