/* The correlation table. See correlate.h. */
#include "record/correlate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/region.h"

/*
 * Numbers in flight without overflow: CUPTI holds some 300,000 records on the device and in its
 * buffers, and calls that launch nothing take numbers too.
 */
#define SLOT_COUNT (1u << 20)
/* Shared entries, and those whose record never came, are kept this long beyond the table. */
#define OVERFLOW_MAX (1u << 16)

#define FLAG_NAMED 1u
#define FLAG_SHARED 2u

/*
 * `number` is 0 while the slot is free. The writer fills the rest first; numbers are handed out by
 * the vendor before the kernel can run, so its record is read long after, behind the vendor's own
 * synchronisation: the release and acquire only make that explicit.
 */
struct slot {
	_Atomic uint32_t number;
	uint32_t shadow;
	uint32_t source;
	uint32_t sessions_and_flags; /* sessions << 2 | flags */
};

static struct region space;
static pthread_mutex_t overflow_lock = PTHREAD_MUTEX_INITIALIZER;
static struct slot overflow[OVERFLOW_MAX]; /* a ring: the oldest is forgotten */
static uint32_t overflow_next;
static _Atomic uint32_t overflow_count;

static struct slot *slot_of(uint32_t number)
{
	return (struct slot *)space.base + number % SLOT_COUNT;
}

int correlate_init(struct proton_error *err)
{
	if (space.base)
		return PROTON_OK;
	return region_reserve(&space, SLOT_COUNT * sizeof(struct slot),
			      SLOT_COUNT * sizeof(struct slot), 1, err);
}

static void spill(const struct slot *slot, uint32_t number)
{
	pthread_mutex_lock(&overflow_lock);
	overflow[overflow_next % OVERFLOW_MAX] = (struct slot){
		.number = number,
		.shadow = slot->shadow,
		.source = slot->source,
		.sessions_and_flags = slot->sessions_and_flags,
	};
	overflow_next++;
	atomic_store_explicit(&overflow_count,
			      overflow_next < OVERFLOW_MAX ? overflow_next : OVERFLOW_MAX,
			      memory_order_release);
	pthread_mutex_unlock(&overflow_lock);
}

void correlate_put(uint32_t number, struct correlation correlation)
{
	struct slot *slot = slot_of(number);
	uint32_t old = atomic_load_explicit(&slot->number, memory_order_acquire);

	if (!number)
		return;
	if (old && old != number)
		spill(slot, old);
	slot->shadow = correlation.where.shadow;
	slot->source = correlation.where.source;
	slot->sessions_and_flags = correlation.where.sessions << 2 |
				   (correlation.is_named ? FLAG_NAMED : 0) |
				   (correlation.is_shared ? FLAG_SHARED : 0);
	atomic_store_explicit(&slot->number, number, memory_order_release);
}

static void unpack(const struct slot *slot, struct correlation *out)
{
	*out = (struct correlation){
		.where = {.shadow = slot->shadow,
			  .source = slot->source,
			  .sessions = slot->sessions_and_flags >> 2},
		.is_named = slot->sessions_and_flags & FLAG_NAMED,
		.is_shared = slot->sessions_and_flags & FLAG_SHARED,
	};
}

/* Newest first: what is asked for has mostly just been pushed out. */
static bool take_overflow(uint32_t number, struct correlation *out)
{
	bool found = false;

	if (!atomic_load_explicit(&overflow_count, memory_order_acquire))
		return false;
	pthread_mutex_lock(&overflow_lock);
	for (uint32_t i = 0; i < overflow_count && !found; i++) {
		struct slot *slot = &overflow[(overflow_next - 1 - i) % OVERFLOW_MAX];

		if (slot->number != number)
			continue;
		unpack(slot, out);
		if (!out->is_shared)
			slot->number = 0;
		found = true;
	}
	pthread_mutex_unlock(&overflow_lock);
	return found;
}

bool correlate_take(uint32_t number, struct correlation *out)
{
	struct slot *slot = slot_of(number);

	if (!number || atomic_load_explicit(&slot->number, memory_order_acquire) != number)
		return number && take_overflow(number, out);
	unpack(slot, out);
	if (!out->is_shared)
		atomic_store_explicit(&slot->number, 0, memory_order_release);
	return true;
}

void correlate_clear(void)
{
	pthread_mutex_lock(&overflow_lock);
	memset(overflow, 0, sizeof(overflow));
	overflow_next = 0;
	atomic_store(&overflow_count, 0);
	pthread_mutex_unlock(&overflow_lock);
	for (uint32_t i = 0; space.base && i < SLOT_COUNT; i++)
		atomic_store_explicit(&((struct slot *)space.base)[i].number, 0,
				      memory_order_relaxed);
}
