/* Trace events of instrumented kernels. */
#include "record/sets/record_intra.h"

#include <stdlib.h>

#include "record/sets/session.h"

bool record_wants_intra(struct proton_context where)
{
	return where.sessions & CONFIG_TRACED;
}

void record_intra_launch(struct proton_context where, uint32_t device)
{
	const struct config *config = session_config_get(where.sessions);

	for (uint32_t i = 0; i < config->count; i++) {
		struct session *session = session_lock_entry(&config->entries[i]);

		if (!session)
			continue;
		store_counters_add(&session->store, COUNTER_INSIDE, 1);
		if (device != DEVICE_NONE)
			store_device(&session->store, device);
		session_unlock(session);
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

static void add_to(struct store *store, const struct config_entry *entry,
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
	const struct config *config = session_config_get(launch->where.sessions);
	struct rows rows = {
		.nodes = calloc(launch->node_count + 1, sizeof(*rows.nodes)),
		.lanes = calloc(launch->unit_count + 1, sizeof(*rows.lanes)),
	};
	bool is_ok = rows.nodes && rows.lanes;

	for (uint32_t i = 0; is_ok && i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];
		struct session *session = entry->trace ? session_lock_entry(entry) : NULL;

		if (!session)
			continue;
		add_to(&session->store, entry, launch, &rows);
		session_unlock(session);
	}
	free(rows.nodes);
	free(rows.lanes);
	return is_ok;
}
