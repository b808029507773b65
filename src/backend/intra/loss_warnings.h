/* Per-kernel loss reports (one warning per kernel) and the limit on launches kept in traces. */
#pragma once

#include "backend/intra/loaded_kernels.h"

/*
 * Starts a run. `is_bounded`: the default limit applies, because the mode sets no number of
 * launches.
 */
void loss_start(bool is_bounded);
/* Counts a launch that could not be read because `call` failed, and warns if it is the first. */
void loss_of_launch(const char *call, int result);
/*
 * True if the traces have space for a launch with so many slices. After one false it stays false
 * for this kernel.
 */
bool loss_has_space(struct kernel *kernel, uint64_t events);
/* Adds the totals of a decoded launch. */
void loss_add(struct kernel *kernel, const struct decode_totals *totals);
/* Prints the new warnings of all kernels. */
void loss_report_all(void);
void loss_forget(void);
