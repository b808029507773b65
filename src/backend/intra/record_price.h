/* The measured price of records, for modes with a budget. */
#ifndef BACKEND_INTRA_RECORD_PRICE_H
#define BACKEND_INTRA_RECORD_PRICE_H

#include "backend/intra/loaded_kernels.h"
#include "intra/mode.h"

/* Starts a run; without a budget nothing is measured. */
void record_price_start(const struct instrument_mode *mode);
/*
 * Adds a decoded launch: its records and the cycles of its units, from their first instruction to
 * their last. `overhead` is that of a record; 0: not calibrated.
 */
void record_price_add(struct kernel *kernel, const struct decode_totals *totals,
		      uint64_t unit_cycles, struct decode_overhead overhead);
/* True if the records of the kernel took more than the budget since the last report. */
bool record_price_is_too_high(const struct kernel *kernel);
/* Prints a warning in this case. The next report is about later launches. */
void record_price_report(struct kernel *kernel);

#endif
