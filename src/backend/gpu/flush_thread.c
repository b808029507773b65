/*
 * Periodic flush thread.
 *
 * cuptiActivityFlushPeriod() is not sufficient, because it returns only full buffers. The flush
 * used here returns buffers with only complete records, and waits for no kernel.
 */
#include "backend/gpu/flush_thread.h"

#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "backend/gpu/tensors.h"
#include "record/sets/session.h"

#define PERIOD_NS 500000000u

static struct periodic_thread thread;
static void (*_Atomic when_idle)(void);
static void (*_Atomic each_round)(void);

bool flush_thread_is_idle(void)
{
	return !atomic_load(&session_config);
}

void flush_thread_run(struct periodic_thread *self, void (*on_idle)(void), void (*on_round)(void))
{
	uint64_t before = 0;
	int rounds = 0; /* rounds left */
	bool was_idle = false;

	if (on_round)
		on_round();
	while (periodic_thread_wait(self, PERIOD_NS)) {
		uint64_t launched = launches_count();
		bool is_idle = on_idle && flush_thread_is_idle();

		/* One round more after the last launch: its kernel may have been running. */
		rounds = launched != before ? 2 : rounds - (rounds > 0);
		/* Graph launches are not counted. */
		if (!is_idle && (rounds || launches_last_shared()))
			await_records_ask();
		tensors_catch_up();
		if (on_round && !flush_thread_is_idle())
			on_round();
		before = launched;
		/* A program that deactivates its session for a few steps is not stopped. */
		if (is_idle && was_idle)
			on_idle();
		was_idle = is_idle;
	}
}

static void *run_thread(void *unused)
{
	flush_thread_run(&thread, when_idle, each_round);
	return NULL;
}

void flush_thread_start(void (*on_idle)(void), void (*on_round)(void))
{
	when_idle = on_idle;
	each_round = on_round;
	periodic_thread_start(&thread, run_thread);
}

void flush_thread_stop(void)
{
	periodic_thread_stop(&thread);
}
