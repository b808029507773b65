/* Metrics given through the public API, spread over the sessions they belong to. */
#include <libproton/proton.h>

#include "record/captured.h"
#include "record/frames.h"
#include "record/metric_names.h"
#include "record/session.h"
#include "record/thread.h"

static int check(const struct proton_metric *metric, struct proton_error *err)
{
	if (!metric->name || !*metric->name)
		return err_set(err, PROTON_E_INVALID, "a metric needs a name");
	if (metric->name_id && !metric_name_exists(metric->name_id - 1))
		return err_set(err, PROTON_E_INVALID, "metric %s has a name_id that no name has",
			       metric->name);
	switch (metric->type) {
	case PROTON_METRIC_INT64:
	case PROTON_METRIC_DOUBLE:
		return PROTON_OK;
	case PROTON_METRIC_STRING:
		if (metric->value.string)
			return PROTON_OK;
		break;
	case PROTON_METRIC_INT64_VECTOR:
	case PROTON_METRIC_DOUBLE_VECTOR:
		if (metric->value.int64s || !metric->count)
			return PROTON_OK;
		break;
	}
	return err_set(err, PROTON_E_INVALID, "metric %s has an unknown type or no value",
		       metric->name);
}

uint32_t proton_metric_name(const char *name)
{
	/* Names may be made before the first session, as frames may. */
	if (!name || !*name || frames_init(NULL) != PROTON_OK)
		return 0;
	return metric_name_add(name) + 1; /* METRIC_NAME_NONE + 1 is 0 */
}

int proton_metrics_add(struct proton_context where, const struct proton_metric *metrics,
		       size_t count, struct proton_error *err)
{
	const struct config *config = session_config_get(where.sessions);
	const struct trace_event *event;
	int status = PROTON_OK;

	if (!config->count)
		return PROTON_OK;
	event = where.sessions & CONFIG_TRACED ? thread_open_event(where) : NULL;
	for (size_t m = 0; m < count; m++) {
		int result = check(&metrics[m], status == PROTON_OK ? err : NULL);
		uint32_t name = METRIC_NAME_NONE;

		if (result == PROTON_OK) {
			name = metrics[m].name_id ? metrics[m].name_id - 1
						  : metric_name_add(metrics[m].name);
			if (name == METRIC_NAME_NONE)
				continue; /* counted as lost */
		}
		/* Given for work that is captured now and runs later, it counts at each run. */
		if (result == PROTON_OK && captured_is_on() &&
		    captured_hold(where, name, &metrics[m]))
			continue;
		for (uint32_t i = 0; result == PROTON_OK && i < config->count; i++) {
			const struct config_entry *entry = &config->entries[i];
			struct session *session = session_lock_entry(entry);

			if (!session)
				continue;
			result = store_metric(&session->store,
					      entry->wants_source ? where.source : where.shadow,
					      entry->epoch, name, &metrics[m],
					      status == PROTON_OK ? err : NULL);
			if (event && entry->trace && trace_row(event, entry->serial))
				store_event_metric(&session->store, trace_row(event, entry->serial),
						   name, &metrics[m]);
			session_unlock(session);
		}
		if (status == PROTON_OK)
			status = result;
	}
	return status;
}
