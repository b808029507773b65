/*
 * The measured price of records, or of executions in sums: their number compared with the time that
 * their warps ran. Overwritten records count too. The budget itself was applied when the kernel was
 * compiled, by a prediction (src/intra/ttgir/scope_budget.h).
 */
#include "backend/intra/record_price.h"

#include <pthread.h>

#include "base/message.h"

/* Cycles of a record that was not calibrated, on an H200. Unknown on AMD GPUs. */
#define RECORD_CYCLES 21.0
/* An execution in sums, there: 11.6, and by ptxas's code 5 to 8 for its minimum and maximum. */
#define SUM_CYCLES 18.0

static _Atomic uint32_t budget; /* percent; 0: none */

void record_price_start(const struct instrument_mode *mode)
{
	atomic_store(&budget, mode->budget);
}

static double cycles_of(const struct instrument_layout *layout, struct decode_overhead overhead)
{
	double record = (double)overhead.scope / DECODE_CYCLE;

	if (record > 0 && !layout->sum_count)
		return record;
	if (layout->is_amd)
		return 0;
	return layout->sum_count ? SUM_CYCLES : RECORD_CYCLES;
}

void record_price_add(struct kernel *kernel, const struct decode_totals *totals,
		      uint64_t unit_cycles, struct decode_overhead overhead)
{
	double record = cycles_of(&kernel->layout, overhead);

	/* relaxed: sums, which are read after the readers have been waited for */
	if (!atomic_load_explicit(&budget, memory_order_relaxed))
		return;
	atomic_fetch_add_explicit(&kernel->record_cycles,
				  (uint64_t)(record * (double)totals->records),
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&kernel->unit_cycles, unit_cycles, memory_order_relaxed);
}

/* Percent of the time without records; 0: nothing was measured. */
static double percent_of(const struct kernel *kernel)
{
	double records = (double)atomic_load(&kernel->record_cycles);
	double cycles = (double)atomic_load(&kernel->unit_cycles);

	if (cycles <= 0)
		return 0;
	return cycles > records ? 100 * records / (cycles - records) : 100;
}

bool record_price_is_too_high(const struct kernel *kernel)
{
	uint32_t limit = atomic_load(&budget);

	return limit && percent_of(kernel) > limit;
}

void record_price_report(struct kernel *kernel)
{
	uint32_t limit = atomic_load(&budget);
	double percent = percent_of(kernel);
	bool is_reported = record_price_is_too_high(kernel);
	uint32_t smaller;

	atomic_store(&kernel->record_cycles, 0);
	atomic_store(&kernel->unit_cycles, 0);
	if (!is_reported)
		return;
	smaller = (uint32_t)(limit * limit / percent);
	message("%s: its records took %.1f %% of its time, more than the budget of %u %%; set "
		"budget=%u or select fewer kinds in auto=",
		kernel->name, percent, limit, smaller ? smaller : 1);
}
