/* Counters of all live sessions. */
#include "record/sets/record_count.h"

#include "record/sets/registry.h"

void record_count(enum counter counter, uint64_t more)
{
	for (uint32_t slot = 0; more && slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		pthread_mutex_lock(&session->lock);
		if (session->is_live &&
		    (counter != COUNTER_LOST_MEMORY || session->flags & PROTON_SESSION_MEMORY))
			store_counters_add(&session->store, counter, more);
		pthread_mutex_unlock(&session->lock);
	}
}

bool record_program_ends(void)
{
	return atomic_load_explicit(&registry.program_ends, memory_order_relaxed);
}
