/* PC samples: adding of batches to the sessions. */
#include "record/sets/record_samples.h"

#include "record/sets/session.h"

/* The session is locked. */
static void add_samples(struct session *session, uint32_t context, uint32_t epoch,
			const struct pc_sample *samples, size_t count)
{
	uint64_t added = 0;
	size_t refused = 0;

	for (size_t i = 0; i < count; i++) {
		if (store_samples_add(&session->store, context, epoch, &samples[i]))
			added += samples[i].samples;
		else
			refused++;
	}
	store_counters_add(&session->store, COUNTER_SAMPLES, added);
	store_counters_add(&session->store, COUNTER_LOST_STORAGE, refused);
	store_samples_find_code_objects(&session->store);
}

void record_samples(uint32_t sessions, const struct backend *backend,
		    const struct pc_sample *samples, size_t count,
		    const struct sample_totals *totals)
{
	const struct config *config = session_config_get(sessions);

	for (uint32_t i = 0; i < config->count; i++) {
		struct session *session = session_lock_entry(&config->entries[i]);

		if (!session)
			continue;
		if (session->backend == backend) {
			add_samples(session, PROTON_CONTEXT_ROOT, config->entries[i].epoch, samples,
				    count);
			store_counters_add(&session->store, COUNTER_SAMPLES_PROFILER,
					   totals->profiler);
			store_counters_add(&session->store, COUNTER_SAMPLES_UNKNOWN,
					   totals->unknown);
			store_counters_add(&session->store, COUNTER_LOST_SAMPLES, totals->losses);
		}
		session_unlock(session);
	}
}

void record_launch_samples(struct proton_context where, const struct pc_sample *samples,
			   size_t count)
{
	const struct config *config = session_config_get(where.sessions);

	for (uint32_t i = 0; i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];
		struct session *session = session_lock_entry(entry);

		if (!session)
			continue;
		add_samples(session, entry->wants_source ? where.source : where.shadow,
			    entry->epoch, samples, count);
		session_unlock(session);
	}
}
