/* Waiting at a flush for records that may come late or never. */
#include "backend/gpu/records.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/message.h"
#include "base/mutex.h"
#include "record/record.h"

#define FLUSH_LIMIT_NS 5000000000ull
#define DOUBT_LIMIT_NS 200000000ull
#define TAKEN_LIMIT_NS 1000000000ull
#define QUIET_NS 5000000ull
/* After so many flushes in a row that waited in vain, the next ones wait for a moment only. */
#define VAIN_MAX 10u
#define VAIN_LIMIT_NS 20000000ull

/*
 * Guards the next four. One flush at a time: a flush that starts during another one would return
 * at once, and take the records that the other is still receiving for the last.
 */
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct await_vendor *vendor;
static uint64_t given_up; /* launches that never received a record */
static bool missing_was_noted;
static unsigned in_vain; /* flushes in a row that gave up waiting */

static _Atomic uint64_t completed;     /* launches that received their record */
static _Atomic uint64_t dropped;       /* records, since they were last given up */
static _Atomic uint32_t newest_shared; /* launch of the newest record of a shared one */
static _Atomic bool was_refused;       /* the library got no buffer */
static _Atomic uint64_t processed;     /* records, of graphs too */
static _Atomic uint64_t cost_ns;

/* Counts of the buffer that this thread reads. */
static _Thread_local struct {
	bool is_open;
	uint64_t processed;
	uint64_t completed;
} buffer;

void await_records_note(void)
{
	if (buffer.is_open)
		buffer.processed++;
	else
		atomic_fetch_add_explicit(&processed, 1, memory_order_relaxed);
}

void await_records_note_complete(void)
{
	if (buffer.is_open)
		buffer.completed++;
	else
		atomic_fetch_add_explicit(&completed, 1, memory_order_relaxed);
}

void await_records_note_shared(uint32_t correlation)
{
	atomic_store_explicit(&newest_shared, correlation, memory_order_relaxed);
}

void await_records_note_dropped(uint64_t count)
{
	atomic_fetch_add_explicit(&dropped, count, memory_order_relaxed);
	record_count(COUNTER_LOST_DROPPED, count);
}

void await_records_note_refused(void)
{
	atomic_store_explicit(&was_refused, true, memory_order_relaxed);
}

uint64_t await_records_begin(void)
{
	buffer.is_open = true;
	buffer.processed = 0;
	buffer.completed = 0;
	return clock_thread_ns();
}

void await_records_end(uint64_t start_ns)
{
	buffer.is_open = false;
	atomic_fetch_add_explicit(&cost_ns, clock_thread_ns() - start_ns, memory_order_relaxed);
	atomic_fetch_add_explicit(&processed, buffer.processed, memory_order_relaxed);
	/* Last: a flush that sees it finds the kernels in the profile. */
	atomic_fetch_add_explicit(&completed, buffer.completed, memory_order_relaxed);
}

uint64_t await_records_cost_ns(void)
{
	return atomic_load_explicit(&cost_ns, memory_order_relaxed);
}

void await_records_start(const struct await_vendor *of)
{
	atomic_store(&completed, 0);
	atomic_store(&cost_ns, 0);
	atomic_store(&dropped, 0);
	atomic_store(&was_refused, false);
	MUTEX_HOLD(&flush_lock);
	vendor = of;
	given_up = 0;
	missing_was_noted = false;
	in_vain = 0;
}

void await_records_stop(void)
{
	MUTEX_HOLD(&flush_lock);
	vendor = NULL;
}

bool await_records_were_missed(void)
{
	MUTEX_HOLD(&flush_lock);
	return missing_was_noted;
}

/* Missing records never arrive: not waited for again, and counted unless the vendor did. */
static void give_up(uint64_t missing)
{
	uint64_t unasked = vendor->take_dropped ? vendor->take_dropped() : 0;

	if (unasked)
		await_records_note_dropped(unasked);
	uint64_t counted = atomic_exchange(&dropped, 0);
	given_up += missing;
	if (missing <= counted)
		return;
	missing -= counted;
	record_count(COUNTER_LOST_MISSING, missing);
	if (!missing_was_noted)
		message("no %s records were received for %llu kernels; %s", vendor->name,
			(unsigned long long)missing, vendor->cause);
	missing_was_noted = true;
}

/* Some records may never arrive. */
static bool is_in_doubt(void)
{
	return atomic_load_explicit(&dropped, memory_order_relaxed) ||
	       atomic_load_explicit(&was_refused, memory_order_relaxed);
}

/* A flush in progress. */
struct wait {
	uint64_t limit_ns;
	uint64_t now_ns;
	uint64_t older_ns; /* last time without a record of a later replay */
	uint64_t moved_ns; /* last time a new record was seen */
	uint64_t before;   /* records at that time */
	uint64_t come;     /* launches that have their record */
	uint64_t come_ns;  /* last time that it grew: other threads may launch without an end */
	int failure;
};

/* Asks for records, and notes what has come before. */
static void ask_for_records(struct wait *wait, uint32_t last_shared)
{
	uint64_t now = atomic_load_explicit(&processed, memory_order_relaxed);
	uint32_t newest = atomic_load_explicit(&newest_shared, memory_order_relaxed);

	if (now != wait->before)
		wait->moved_ns = wait->now_ns;
	wait->before = now;
	if ((int32_t)(newest - last_shared) <= 0)
		wait->older_ns = wait->now_ns;
	int result = vendor->flush();
	if (result)
		wait->failure = result;
	if ((result || is_in_doubt()) && wait->limit_ns > DOUBT_LIMIT_NS)
		wait->limit_ns = DOUBT_LIMIT_NS;
	wait->now_ns = clock_monotonic_ns();
	if (wait->limit_ns > TAKEN_LIMIT_NS && vendor->has_buffers && !vendor->has_buffers())
		wait->limit_ns = TAKEN_LIMIT_NS;
}

/* A replay's number of records is unknown: wait until none come, or those of later replays do. */
static bool is_quiet(const struct wait *wait)
{
	return wait->now_ns - wait->moved_ns > QUIET_NS || wait->now_ns - wait->older_ns > QUIET_NS;
}

int await_records_flush(uint64_t launched, uint32_t last_shared, bool in_doubt)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct wait wait = {.limit_ns = in_doubt ? DOUBT_LIMIT_NS : FLUSH_LIMIT_NS,
			    .now_ns = now_ns,
			    .older_ns = now_ns,
			    .moved_ns = now_ns,
			    .come_ns = now_ns};

	MUTEX_HOLD(&flush_lock);
	if (missing_was_noted)
		wait.limit_ns = DOUBT_LIMIT_NS;
	if (in_vain >= VAIN_MAX)
		wait.limit_ns = VAIN_LIMIT_NS;
	for (;;) {
		ask_for_records(&wait, last_shared);
		uint64_t come = atomic_load_explicit(&completed, memory_order_relaxed) + given_up;
		if (come != wait.come)
			wait.come_ns = wait.now_ns;
		wait.come = come;
		if (come >= launched) {
			if (!last_shared || is_quiet(&wait)) {
				in_vain = 0;
				break;
			}
		} else if (wait.now_ns - wait.come_ns > wait.limit_ns) {
			give_up(launched - come);
			in_vain++;
			break;
		}
		usleep(50);
	}
	return wait.failure;
}

bool await_records_ask(void)
{
	if (pthread_mutex_trylock(&flush_lock) != 0)
		return false;
	if (vendor)
		vendor->flush();
	pthread_mutex_unlock(&flush_lock);
	return true;
}
