/*
 * Periodic flush thread.
 *
 * cuptiActivityFlushPeriod() is not sufficient, because it returns only full buffers. The flush
 * used here returns buffers with only complete records, and waits for no kernel.
 */
#include "backend/gpu/flush_thread.h"

#include "backend/gpu/await_records.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/tensors.h"

#define PERIOD_NS 500000000u

static struct periodic_thread thread;

void flush_thread_run(struct periodic_thread *self)
{
	uint64_t before = 0;
	int rounds = 0; /* rounds left */

	while (periodic_thread_wait(self, PERIOD_NS)) {
		uint64_t launched = launches_count();

		/* One round more after the last launch: its kernel may have been running. */
		rounds = launched != before ? 2 : rounds - (rounds > 0);
		/* Graph launches are not counted. */
		if (rounds || launches_last_shared())
			await_records_ask();
		tensors_catch_up();
		before = launched;
	}
}

static void *run(void *unused)
{
	flush_thread_run(&thread);
	return NULL;
}

void flush_thread_start(void)
{
	periodic_thread_start(&thread, run);
}

void flush_thread_stop(void)
{
	periodic_thread_stop(&thread);
}
