/* Warnings about lost records and omitted launches, one per kernel. */
#include "backend/intra/loss_warnings.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/message.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/sets/record_sessions.h"

/*
 * Maximum slices of one kernel in a trace if the mode does not limit the launches: about 60 MB of
 * Chrome JSON. The first launch is always kept.
 */
#define EVENTS_DEFAULT 800000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the totals of all kernels */
static bool is_bounded;
static atomic_bool has_failed; /* a launch could not be read: reported once per run */
static uint64_t missed; /* launches of all kernels that were omitted, not yet counted as lost */

void loss_start(bool wanted)
{
	is_bounded = wanted;
	atomic_store(&has_failed, false);
}

void loss_of_launch(const char *call, int result)
{
	record_count(COUNTER_LOST_DAMAGED, 1);
	if (result == DRIVER_DEINITIALIZED || atomic_exchange(&has_failed, true))
		return;
	message("cannot read the records of an instrumented kernel: %s failed (%d)", call, result);
}

bool loss_has_space(struct kernel *kernel, uint64_t events)
{
	MUTEX_HOLD(&lock);
	bool is_ok = !is_bounded || !kernel->run.traced ||
		     kernel->run.traced_events + events <= EVENTS_DEFAULT;

	if (is_ok) {
		kernel->run.traced++;
		kernel->run.traced_events += events;
	}
	return is_ok;
}

static void add_totals(struct decode_totals *sum, const struct decode_totals *more)
{
	uint64_t *to = (uint64_t *)(void *)sum;
	const uint64_t *from = (const uint64_t *)(const void *)more;

	_Static_assert(sizeof(*sum) % sizeof(*to) == 0, "counters of 64 bits only");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void loss_add(struct kernel *kernel, const struct decode_totals *totals)
{
	uint64_t broken = 0;

	for (uint32_t i = 0; i < kernel->layout.scope_count; i++)
		broken += totals->broken[i];
	record_count(COUNTER_LOST_INSIDE, totals->dropped);
	record_count(COUNTER_LOST_PAIR, broken);
	record_count(COUNTER_LOST_DAMAGED, totals->damaged);
	MUTEX_HOLD(&lock);
	add_totals(&kernel->run.totals, totals);
}

/* "3 of a, 12 of b": counts by scope. */
static void list_scopes(const struct kernel *kernel, const uint64_t *counts, char *text,
			size_t capacity)
{
	size_t used = 0;

	*text = '\0';
	for (uint32_t i = 0; i < kernel->layout.scope_count && used < capacity; i++)
		if (counts[i])
			used += (size_t)snprintf(text + used, capacity - used,
						 "%s%" PRIu64 " of %s", used ? ", " : "", counts[i],
						 kernel->layout.scopes[i]);
}

/* Each kind of loss is reported once per kernel and session; the profile has all counts. */
enum loss {
	LOSS_WITHOUT_RECORDS,
	LOSS_UNTRACED,
	LOSS_UNSAMPLED,
	LOSS_OVERWRITTEN,
	LOSS_PARTIAL,
	LOSS_BROKEN,
	LOSS_DAMAGED,
	LOSS_PRICE,
};

static bool is_new(struct kernel *kernel, enum loss kind, bool is_there)
{
	bool is_first = is_there && !(kernel->run.reported & 1u << kind);

	if (is_first)
		kernel->run.reported |= 1u << kind;
	return is_first;
}

static void print_omitted(struct kernel *kernel)
{
	uint64_t untraced = kernel->run.omitted[OMITTED_UNTRACED];
	uint64_t unsampled = kernel->run.omitted[OMITTED_UNSAMPLED];
	uint64_t without_records = kernel->run.omitted[OMITTED_WITHOUT_RECORDS];

	missed += untraced + unsampled + without_records - kernel->run.counted;
	kernel->run.counted = untraced + unsampled + without_records;
	if (is_new(kernel, LOSS_WITHOUT_RECORDS, without_records))
		message("%s: the trace omits %" PRIu64
			" launches (totals include them), because the kernel was compiled or "
			"captured for a tree and has no records; start the trace first",
			kernel->name, without_records);
	if (is_new(kernel, LOSS_UNTRACED, untraced))
		message("%s: the trace shows %" PRIu64 " launches and omits %" PRIu64
			" more (totals include them); set launches=N or launches=all in the mode "
			"to keep more",
			kernel->name, kernel->run.traced, untraced);
	if (is_new(kernel, LOSS_UNSAMPLED, unsampled))
		message("%s: %" PRIu64
			" launches were not sampled because the record buffer pool was exhausted "
			"or is too small for one launch; sample fewer CTAs (cta=N in the mode) or "
			"reduce buffer_size",
			kernel->name, unsampled);
}

static void print_lost(struct kernel *kernel)
{
	const struct decode_totals *totals = &kernel->run.totals;
	uint32_t warps = 0;
	char scopes[512];

	for (uint32_t i = 0; i < INSTRUMENT_UNIT_MAX; i++)
		warps += totals->dropped_warp[i] != 0;
	if (is_new(kernel, LOSS_OVERWRITTEN, totals->dropped))
		message("%s: %" PRIu64 " of %" PRIu64
			" records were overwritten, in %u warps; increase buffer_size to keep more",
			kernel->name, totals->dropped, totals->records, warps);
	list_scopes(kernel, totals->partial, scopes, sizeof(scopes));
	if (is_new(kernel, LOSS_PARTIAL, *scopes))
		message("%s: executions recorded only in part, so their cycles are a lower bound: "
			"%s",
			kernel->name, scopes);
	list_scopes(kernel, totals->broken, scopes, sizeof(scopes));
	if (is_new(kernel, LOSS_BROKEN, *scopes))
		message("%s: unpaired scope starts or ends, missing or moved by the compiler: %s",
			kernel->name, scopes);
	if (is_new(kernel, LOSS_DAMAGED, totals->damaged || totals->lost_units))
		message("%s: %" PRIu64 " records could not be decoded, %" PRIu64
			" warps did not finish",
			kernel->name, totals->damaged, totals->lost_units);
}

/* Scopes that were omitted because of it. */
static void print_price(struct kernel *kernel)
{
	struct loop *loop = atomic_load(&kernel->loop);
	struct loop_price price = {.has_dropped = false};
	struct out text;

	if (loop && kernel->variant == LOOP_FIRST)
		closed_loop_price(loop, &price);
	if (!is_new(kernel, LOSS_PRICE, price.has_dropped && price.is_decided))
		return;
	out_init(&text, -1);
	closed_loop_write(loop, &text);
	out_byte(&text, '\0');
	if (!text.errnum)
		message("%s: price of its automatic scopes: %s", kernel->name, text.bytes);
	out_fini(&text);
}

static void report_loss(struct kernel *kernel)
{
	print_omitted(kernel);
	print_lost(kernel);
	print_price(kernel);
}

void loss_report_all(void)
{
	pthread_mutex_lock(&lock);
	loaded_kernels_visit(report_loss);
	uint64_t count = missed;
	missed = 0;
	pthread_mutex_unlock(&lock);
	record_count(COUNTER_UNSAMPLED, count);
}

void loss_forget(void)
{
	pthread_mutex_init(&lock, NULL);
}
