/* Additions of backends to live sessions. */
#include "record/sets/record_sessions.h"

#include <stdlib.h>

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
	struct session_walk walk = {.config = session_config_get(sessions),
				    .lock = session_lock_entry};

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
	struct session_walk walk = {.config = session_config_get(where.sessions),
				    .lock = session_lock_entry};

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
	struct session_walk walk = {.config = session_config_get(where.sessions),
				    .lock = session_lock_entry};

	while (session_walk(&walk)) {
		store_counters_add(&walk.session->store, COUNTER_INSIDE, 1);
		if (device != DEVICE_NONE)
			store_device(&walk.session->store, device);
	}
}

/* The launch's nodes and lanes as rows of one store. */
struct rows {
	uint32_t *nodes;
	uint32_t *lanes; /* first sub-track of each unit */
};

static bool find_rows(struct store *store, const struct config_entry *entry,
		      const struct intra_launch *launch, const struct rows *rows, uint32_t device)
{
	for (size_t i = 0; i < launch->node_count; i++)
		rows->nodes[i] = store_make_node(store, session_context(entry, launch->nodes[i]),
						 entry->epoch);
	for (size_t i = 0; i < launch->unit_count; i++) {
		rows->lanes[i] =
			store_event_unit_lanes(store, device, launch->frame, &launch->units[i]);
		if (rows->lanes[i] == LANE_NONE)
			return false;
	}
	return true;
}

static void add_to_store(struct store *store, const struct config_entry *entry,
			 const struct intra_launch *launch, const struct rows *rows)
{
	uint32_t device = store_device(store, launch->device);
	uint32_t kernel =
		store_make_node(store, session_context(entry, launch->where), entry->epoch);

	if (kernel && device != UINT32_MAX && find_rows(store, entry, launch, rows, device))
		store_event_add_intra(store, launch, entry->epoch, kernel, rows->nodes, rows->lanes,
				      trace_event_row(launch->event, entry->serial));
	/* else counted as a loss by the store */
}

bool record_intra(const struct intra_launch *launch)
{
	struct session_walk walk = {.config = session_config_get(launch->where.sessions),
				    .lock = session_lock_entry};
	struct rows rows = {
		.nodes = calloc(launch->node_count + 1, sizeof(*rows.nodes)),
		.lanes = calloc(launch->unit_count + 1, sizeof(*rows.lanes)),
	};
	bool is_ok = rows.nodes && rows.lanes;

	while (is_ok && session_walk(&walk))
		if (walk.entry->trace)
			add_to_store(&walk.session->store, walk.entry, launch, &rows);
	free(rows.nodes);
	free(rows.lanes);
	return is_ok;
}
