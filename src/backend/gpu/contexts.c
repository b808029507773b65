/*
 * Set of contexts with launches.
 *
 * An open-addressing set that is written once per context and read at every launch, which finds its
 * context at the first probe. There is no lock: a context that two threads add at once may be in it
 * twice, and is then waited for twice.
 */
#include "backend/gpu/launches.h"

#include "base/hash.h"
#include "base/message.h"

#define PLACES 4096u /* a power of two */
#define PROBES 64u

static _Atomic(void *) places[PLACES]; /* NULL: never used; &gone: the context was destroyed */
static char gone;

static _Atomic(void *) *place(const void *context, uint32_t probe)
{
	return &places[(hash_u64((uintptr_t)context) + probe) % PLACES];
}

void contexts_note(void *context)
{
	if (!context)
		return;
	for (uint32_t i = 0; i < PROBES; i++) {
		_Atomic(void *) *at = place(context, i);
		void *found = atomic_load_explicit(at, memory_order_relaxed);

		if ((!found || found == &gone) &&
		    atomic_compare_exchange_strong(at, &found, context))
			return;
		if (found == context)
			return;
	}
	message_once("too many GPU contexts for a flush to wait for all of them; kernels "
		     "still running in the others may be missing");
}

void contexts_forget(const void *context)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		void *expected = (void *)(uintptr_t)context;

		atomic_compare_exchange_strong(place(context, i), &expected, &gone);
	}
}

void contexts_clear(void)
{
	for (uint32_t i = 0; i < PLACES; i++)
		atomic_store_explicit(&places[i], NULL, memory_order_relaxed);
}

bool contexts_synchronize(bool (*synchronize)(void *context))
{
	bool all = true;

	for (uint32_t i = 0; i < PLACES; i++) {
		void *context = atomic_load_explicit(&places[i], memory_order_relaxed);

		if (context && context != &gone && !synchronize(context))
			all = false;
	}
	return all;
}
