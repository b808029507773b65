/* Additions of backends to live sessions. */
#include "record/sets/record_sessions.h"

#include "record/sets/session.h"

void record_count(enum counter counter, uint64_t more)
{
	for (struct session *session = NULL; more && (session = registry_lock_next(session));)
		if (counter != COUNTER_LOST_MEMORY || session->flags & PROTON_SESSION_MEMORY)
			store_counters_add(&session->store, counter, more);
}

bool record_program_ends(void)
{
	return atomic_load_explicit(&registry.program_ends, memory_order_relaxed);
}

void record_window(const struct backend *backend, const struct record_window *window)
{
	for (struct session *session = NULL; (session = registry_lock_next(session));)
		if (session->backend == backend)
			store_windows_set(&session->store, window);
}

/* ------------------------------------------------------------------ PC samples */

static void add_samples(struct store *store, uint32_t context, uint32_t epoch,
			const struct pc_sample *samples, size_t count)
{
	uint64_t added = 0;
	size_t refused = 0;

	for (size_t i = 0; i < count; i++) {
		if (store_samples_add(store, context, epoch, &samples[i]))
			added += samples[i].samples;
		else
			refused++;
	}
	store_counters_add(store, COUNTER_SAMPLES, added);
	store_counters_add(store, COUNTER_LOST_STORAGE, refused);
	store_samples_find_code_objects(store);
}

void record_samples(uint32_t sessions, const struct backend *backend,
		    const struct pc_sample *samples, size_t count,
		    const struct sample_totals *totals)
{
	struct session_walk walk = {.sessions = sessions, .lock = session_lock_entry};

	while (session_walk(&walk)) {
		struct store *store = &walk.session->store;

		if (walk.session->backend != backend)
			continue;
		add_samples(store, PROTON_CONTEXT_ROOT, walk.entry->epoch, samples, count);
		store_counters_add(store, COUNTER_SAMPLES_PROFILER, totals->profiler);
		store_counters_add(store, COUNTER_SAMPLES_UNKNOWN, totals->unknown);
		store_counters_add(store, COUNTER_LOST_SAMPLES, totals->losses);
	}
}

void record_launch_samples(struct proton_context where, const struct pc_sample *samples,
			   size_t count)
{
	struct session_walk walk = {.sessions = where.sessions, .lock = session_lock_entry};

	while (session_walk(&walk))
		add_samples(&walk.session->store, session_context(walk.entry, where),
			    walk.entry->epoch, samples, count);
}

/* ------------------------------------------------------------------ instrumented kernels */

bool record_wants_intra(struct proton_context where)
{
	return where.sessions & CONFIG_TRACED;
}

void record_intra_launch(struct proton_context where, uint32_t device)
{
	struct session_walk walk = {.sessions = where.sessions, .lock = session_lock_entry};

	while (session_walk(&walk)) {
		store_counters_add(&walk.session->store, COUNTER_INSIDE, 1);
		if (device != DEVICE_NONE)
			store_device(&walk.session->store, device);
	}
}

bool record_intra(const struct intra_launch *launch)
{
	struct session_walk walk = {.sessions = launch->where.sessions, .lock = session_lock_entry};
	bool is_ok = true;

	while (session_walk(&walk))
		if (walk.entry->trace)
			is_ok &= store_event_add_intra(&walk.session->store, launch,
						       walk.entry->epoch, walk.entry->wants_source);
	return is_ok;
}
