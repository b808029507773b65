/* The measured price of records, for modes with a budget. */
#ifndef BACKEND_INTRA_RECORD_PRICE_H
#define BACKEND_INTRA_RECORD_PRICE_H

#include "backend/intra/loaded_kernels.h"
#include "intra/mode.h"

/* Starts a run; without a budget nothing is measured. */
void record_price_start(const struct instrument_mode *mode);
/*
 * Adds a decoded launch: its records and the cycles of its units, from their first instruction to
 * their last. `overhead`: cycles of a record; 0: not calibrated.
 */
void record_price_add(struct kernel *kernel, const struct decode_totals *totals,
		      uint64_t unit_cycles, struct decode_overhead overhead);
/*
 * The smaller budget, in percent, with which the kernel should be compiled again, because enough
 * launches were measured and it exceeded the budget. Else 0. Not 0 once per run.
 */
uint32_t record_price_take(struct kernel *kernel);
/* After that: it was, and the line about it is printed; or it was not, and reports are about it. */
void record_price_taken(struct kernel *kernel, bool is_replaced);
/*
 * True if the records of the kernel took more than the budget since the last report. Always false
 * for a kernel that was compiled again, and before the end of the run for one that may be.
 */
bool record_price_is_too_high(const struct kernel *kernel, bool is_last);
/* Prints a warning in this case. The next report is about later launches. */
void record_price_report(struct kernel *kernel, bool is_last);

#endif
