/*
 * The measured price of records, or of executions in sums: their number compared with the time that
 * their warps ran. Overwritten records count too. The budget itself was applied when the kernel was
 * compiled, by a prediction (src/intra/ttgir/scope_budget.h). If it was wrong, the next launch says
 * so, and Triton's hooks compile the kernel again (_recompile.py).
 */
#include "backend/intra/record_price.h"

#include <pthread.h>

#include "base/message.h"

/* Cycles of a record that was not calibrated, on an H200. Unknown on AMD GPUs. */
#define RECORD_CYCLES 21.0
/* An execution in sums, there: 11.6, and by ptxas's code 5 to 8 for its minimum and maximum. */
#define SUM_CYCLES 18.0

/*
 * A measurement that is enough to compile a kernel again: not the first launches only, when memory
 * is not cached, and a few hundred records if they exceed 5 %.
 */
#define LAUNCHES_ENOUGH 3
#define CYCLES_ENOUGH 100000

/* kernel->price */
enum price {
	PRICE_MEASURED,
	PRICE_TOO_HIGH, /* the next launch of the kernel takes this */
	PRICE_TAKEN,    /* by a thread that compiles the kernel again */
	PRICE_KEPT,     /* which was not possible, or changed nothing */
	PRICE_REPLACED,
};

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

/* Percent of the time without records; 0: nothing was measured. */
static double percent_of(const struct kernel *kernel)
{
	double records = (double)atomic_load(&kernel->record_cycles);
	double cycles = (double)atomic_load(&kernel->unit_cycles);

	if (cycles <= 0)
		return 0;
	return cycles > records ? 100 * records / (cycles - records) : 100;
}

/*
 * The budget that would have been right if the cost is proportional to it. Large ones are rounded
 * down to three binary digits: each is another kernel in Triton's cache.
 */
static uint32_t smaller_than(uint32_t limit, double percent)
{
	uint32_t smaller = percent > limit ? (uint32_t)(limit * limit / percent) : limit - 1;
	uint32_t step = 1;

	while (smaller / step >= 8)
		step *= 2;
	smaller = smaller / step * step;
	return smaller ? smaller : 1;
}

static void note_price(struct kernel *kernel)
{
	uint32_t limit = atomic_load(&budget);
	uint32_t measured = PRICE_MEASURED;

	/* There is no smaller budget than 1 %. */
	if (atomic_load(&kernel->price_launches) >= LAUNCHES_ENOUGH &&
	    atomic_load(&kernel->unit_cycles) >= CYCLES_ENOUGH && percent_of(kernel) > limit)
		atomic_compare_exchange_strong(&kernel->price, &measured,
					       limit > 1 ? PRICE_TOO_HIGH : PRICE_KEPT);
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
	atomic_fetch_add_explicit(&kernel->price_launches, unit_cycles != 0, memory_order_relaxed);
	note_price(kernel);
}

uint32_t record_price_take(struct kernel *kernel)
{
	uint32_t high = PRICE_TOO_HIGH;

	/* relaxed: a later launch sees it too. The exchange pairs with note_price()'s. */
	if (atomic_load_explicit(&kernel->price, memory_order_relaxed) != PRICE_TOO_HIGH ||
	    !atomic_compare_exchange_strong(&kernel->price, &high, PRICE_TAKEN))
		return 0;
	kernel->smaller_budget = smaller_than(atomic_load(&budget), percent_of(kernel));
	return kernel->smaller_budget;
}

void record_price_taken(struct kernel *kernel, bool is_replaced)
{
	uint32_t taken = PRICE_TAKEN;

	/* Not if a run has ended or started since then. */
	if (!atomic_compare_exchange_strong(&kernel->price, &taken,
					    is_replaced ? PRICE_REPLACED : PRICE_KEPT) ||
	    !is_replaced)
		return;
	message("%s: its records took %.1f %% of its time, more than the budget of %u %%; it was "
		"compiled again with budget=%u",
		kernel->name, percent_of(kernel), atomic_load(&budget), kernel->smaller_budget);
}

bool record_price_is_too_high(const struct kernel *kernel, bool is_last)
{
	uint32_t limit = atomic_load(&budget);
	uint32_t price = atomic_load(&kernel->price);

	if (price == PRICE_REPLACED || (price != PRICE_KEPT && !is_last))
		return false;
	return limit && percent_of(kernel) > limit;
}

void record_price_report(struct kernel *kernel, bool is_last)
{
	uint32_t limit = atomic_load(&budget);
	double percent = percent_of(kernel);

	if (!record_price_is_too_high(kernel, is_last))
		return;
	atomic_store(&kernel->record_cycles, 0);
	atomic_store(&kernel->unit_cycles, 0);
	atomic_store(&kernel->price_launches, 0);
	message("%s: its records took %.1f %% of its time, more than the budget of %u %%; set "
		"budget=%u or select fewer kinds in auto=",
		kernel->name, percent, limit, smaller_than(limit, percent));
}
