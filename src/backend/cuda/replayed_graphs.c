/* Executable graphs that were replayed with records: an open-addressing set without a lock. */
#include "backend/cuda/kernel_times.h"

#include "base/hash.h"

#define PLACES 16384u /* a power of two */
#define PROBES 64u

static struct {
	const void *_Atomic exec; /* NULL: never used; &gone: destroyed */
	_Atomic bool is_suspect;
} places[PLACES];
static const char gone;
static _Atomic bool is_any;
static _Atomic bool is_too_many;   /* some are not in the set */
static _Atomic bool was_unwatched; /* while there were too many */

static uint32_t place_of_graph(const void *exec, uint32_t probe)
{
	return (uint32_t)((hash_u64((uintptr_t)exec) + probe) % PLACES);
}

static const void *exec_at(uint32_t at)
{
	return atomic_load_explicit(&places[at].exec, memory_order_relaxed);
}

/* PLACES if it is not in the set. */
static uint32_t find_graph(const void *exec)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = place_of_graph(exec, i);

		if (exec_at(at) == exec)
			return at;
		if (!exec_at(at))
			break;
	}
	return PLACES;
}

/* PLACES if there is no space. Two threads may add the same one twice, which does no harm. */
static uint32_t add_graph(const void *exec)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = place_of_graph(exec, i);
		const void *found = exec_at(at);

		if ((!found || found == &gone) &&
		    atomic_compare_exchange_strong(&places[at].exec, &found, exec))
			return at;
	}
	return PLACES;
}

void replayed_graphs_note(const void *exec)
{
	if (!exec)
		return;
	if (!atomic_load_explicit(&is_any, memory_order_relaxed))
		atomic_store(&is_any, true);
	uint32_t at = find_graph(exec);
	if (at == PLACES)
		at = add_graph(exec);
	if (at == PLACES)
		atomic_store(&is_too_many, true);
	else if (atomic_load_explicit(&places[at].is_suspect, memory_order_relaxed))
		atomic_store_explicit(&places[at].is_suspect, false, memory_order_relaxed);
}

void replayed_graphs_forget(const void *exec)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = place_of_graph(exec, i);
		const void *expected = exec;

		if (atomic_compare_exchange_strong(&places[at].exec, &expected, &gone))
			atomic_store(&places[at].is_suspect, false);
	}
}

void replayed_graphs_unwatch(void)
{
	for (uint32_t at = 0; at < PLACES; at++) {
		const void *found = atomic_load(&places[at].exec);

		atomic_store(&places[at].is_suspect, found && found != &gone);
	}
	atomic_store(&was_unwatched, atomic_load(&is_too_many));
}

bool replayed_graphs_are_suspect(void)
{
	bool is_suspect = atomic_load(&was_unwatched);

	for (uint32_t at = 0; at < PLACES && !is_suspect; at++)
		is_suspect = atomic_load(&places[at].is_suspect);
	return is_suspect;
}

bool replayed_graphs_any(void)
{
	return atomic_load(&is_any);
}

void replayed_graphs_clear(void)
{
	for (uint32_t at = 0; at < PLACES; at++) {
		atomic_store_explicit(&places[at].exec, NULL, memory_order_relaxed);
		atomic_store_explicit(&places[at].is_suspect, false, memory_order_relaxed);
	}
	atomic_store(&is_any, false);
	atomic_store(&is_too_many, false);
	atomic_store(&was_unwatched, false);
}
