/* Correlation table of launches. */
#include "base/mutex.h"
#include "record/thread/record_launch.h"

#include "base/region.h"

/* Launches in flight without overflow: CUPTI keeps about 300,000 records; some ids are not used. */
#define SLOT_COUNT (1u << 20)
/* Shared entries, and those without a record, are kept for this many further overflows. */
#define OVERFLOW_MAX (1u << 16)

#define FLAG_NAMED 1u
#define FLAG_SHARED 2u

/*
 * `number` is 0 while the slot is free. The writer fills the other fields first. Correlation IDs
 * exist before the kernel can run, so its record is read long after, and after synchronization in
 * the vendor library; the release and acquire only make that explicit.
 */
struct slot {
	_Atomic uint32_t number;
	uint32_t shadow;
	uint32_t source;
	uint32_t sessions_and_flags; /* sessions << 2 | flags */
};

/* Trace events of launches, which only traces touch. `number` as in the slot, written later. */
struct launch {
	uint32_t number;
	struct trace_event event;
};

static struct region space;
static struct region launches;
static struct launch overflow_launches[OVERFLOW_MAX];
static _Atomic bool has_launches; /* a launch since the last clear() has an event */
static _Thread_local struct trace_event taken;
static pthread_mutex_t overflow_lock = PTHREAD_MUTEX_INITIALIZER;
/*
 * The overflow buffer: a ring buffer of entries moved out of the slots, with an index; the oldest
 * ones are overwritten. Entries are numbered from 1. Entries with equal correlation IDs modulo
 * OVERFLOW_MAX are linked, newest first; a link to an overwritten one is the end, so no unlinking
 * is needed. Correlation IDs are nearly dense: a chain has one or two links.
 */
static struct slot overflow[OVERFLOW_MAX];
static uint64_t overflow_newest[OVERFLOW_MAX]; /* by correlation ID: an entry, or 0 */
static uint64_t overflow_older[OVERFLOW_MAX];  /* by place in the ring buffer: the previous entry */
static _Atomic uint64_t overflow_pushes;

static struct slot *slot_of(uint32_t number)
{
	return (struct slot *)space.base + number % SLOT_COUNT;
}

int correlate_init(struct proton_error *err)
{
	int status = PROTON_OK;

	if (!space.base)
		status = region_reserve(&space, SLOT_COUNT * sizeof(struct slot),
					SLOT_COUNT * sizeof(struct slot), 1, err);
	if (status == PROTON_OK && !launches.base)
		status = region_reserve(&launches, SLOT_COUNT * sizeof(struct launch),
					SLOT_COUNT * sizeof(struct launch), 1, err);
	return status;
}

static struct launch *launch_of(uint32_t number)
{
	return (struct launch *)launches.base + number % SLOT_COUNT;
}

/* A copy of the event of launch `number` if `launch` contains it. */
static const struct trace_event *take_launch(const struct launch *launch, uint32_t number)
{
	if (!atomic_load_explicit(&has_launches, memory_order_relaxed) || launch->number != number)
		return NULL;
	taken = launch->event;
	return &taken;
}

static void spill_entry(const struct slot *slot, uint32_t number)
{
	MUTEX_HOLD(&overflow_lock);
	uint64_t push = atomic_load_explicit(&overflow_pushes, memory_order_relaxed) + 1;
	uint32_t at = push % OVERFLOW_MAX;

	overflow[at] = (struct slot){
		.number = number,
		.shadow = slot->shadow,
		.source = slot->source,
		.sessions_and_flags = slot->sessions_and_flags,
	};
	if (atomic_load_explicit(&has_launches, memory_order_relaxed))
		overflow_launches[at] = *launch_of(number);
	overflow_older[at] = overflow_newest[number % OVERFLOW_MAX];
	overflow_newest[number % OVERFLOW_MAX] = push;
	atomic_store_explicit(&overflow_pushes, push, memory_order_release);
}

void correlate_put(uint32_t number, const struct correlation *correlation)
{
	struct slot *slot = slot_of(number);
	uint32_t old = atomic_load_explicit(&slot->number, memory_order_acquire);

	if (!number)
		return;
	if (old && old != number)
		spill_entry(slot, old);
	if (correlation->launch) {
		launch_of(number)->number = number;
		launch_of(number)->event = *correlation->launch;
		if (!atomic_load_explicit(&has_launches, memory_order_relaxed))
			atomic_store_explicit(&has_launches, true, memory_order_relaxed);
	}
	slot->shadow = correlation->where.shadow;
	slot->source = correlation->where.source;
	slot->sessions_and_flags = correlation->where.sessions << 2 |
				   (correlation->is_named ? FLAG_NAMED : 0) |
				   (correlation->is_shared ? FLAG_SHARED : 0);
	atomic_store_explicit(&slot->number, number, memory_order_release);
}

static void unpack_entry(const struct slot *slot, struct correlation *out)
{
	*out = (struct correlation){
		.where = {.shadow = slot->shadow,
			  .source = slot->source,
			  .sessions = slot->sessions_and_flags >> 2},
		.is_named = slot->sessions_and_flags & FLAG_NAMED,
		.is_shared = slot->sessions_and_flags & FLAG_SHARED,
	};
}

/* The newest entry with this correlation ID, or NULL. The overflow buffer is locked. */
static struct slot *find_overflow(uint32_t number)
{
	uint64_t pushes = atomic_load_explicit(&overflow_pushes, memory_order_relaxed);
	uint64_t push = overflow_newest[number % OVERFLOW_MAX];

	while (push && pushes - push < OVERFLOW_MAX) {
		if (overflow[push % OVERFLOW_MAX].number == number)
			return &overflow[push % OVERFLOW_MAX];
		push = overflow_older[push % OVERFLOW_MAX];
	}
	return NULL;
}

static bool take_overflow(uint32_t number, struct correlation *out)
{
	if (!atomic_load_explicit(&overflow_pushes, memory_order_acquire))
		return false;
	MUTEX_HOLD(&overflow_lock);
	struct slot *slot = find_overflow(number);
	if (slot) {
		unpack_entry(slot, out);
		out->launch = take_launch(&overflow_launches[slot - overflow], number);
		if (!out->is_shared)
			slot->number = 0;
	}
	return slot;
}

bool correlate_take(uint32_t number, struct correlation *out)
{
	struct slot *slot = slot_of(number);

	if (!number || atomic_load_explicit(&slot->number, memory_order_acquire) != number)
		return number && take_overflow(number, out);
	unpack_entry(slot, out);
	out->launch = take_launch(launch_of(number), number);
	if (!out->is_shared)
		atomic_store_explicit(&slot->number, 0, memory_order_release);
	return true;
}

void correlate_clear(void)
{
	pthread_mutex_lock(&overflow_lock);
	if (atomic_exchange(&overflow_pushes, 0))
		memset(overflow_newest, 0, sizeof(overflow_newest));
	atomic_store(&has_launches, false);
	pthread_mutex_unlock(&overflow_lock);
	for (uint32_t i = 0; space.base && i < SLOT_COUNT; i++)
		atomic_store_explicit(&((struct slot *)space.base)[i].number, 0,
				      memory_order_relaxed);
}
