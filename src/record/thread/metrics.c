/* Metrics of the public API: adding them to the active sessions. */
#include <libproton/proton.h>

#include "record/names/frames.h"
#include "record/thread/adding.h"
#include "record/thread/captured.h"
#include "record/thread/thread_self.h"

static int check_metric(const struct proton_metric *metric, struct proton_error *err)
{
	if (!metric->name || !*metric->name)
		return err_set(err, PROTON_E_INVALID, "a metric needs a name");
	if (metric->name_id && !metric_names_exists(metric->name_id - 1))
		return err_set(err, PROTON_E_INVALID, "metric %s has an invalid name_id",
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
	return metric_names_add(name) + 1; /* METRIC_NAME_NONE + 1 is 0 */
}

/* Adds a metric in every session of `config`; the first error is returned. */
static int add_everywhere(struct proton_context where, const struct config *config, uint32_t name,
			  const struct proton_metric *metric, const struct trace_event *event,
			  struct proton_error *err)
{
	int result = PROTON_OK;

	for (uint32_t i = 0; result == PROTON_OK && i < config->count; i++) {
		const struct config_entry *entry = &config->entries[i];
		uint32_t context = session_context(entry, where);
		uint32_t row = event && entry->trace ? trace_event_row(event, entry->serial) : 0;
		struct adding adding;

		if (adding_begin(entry, &adding)) {
			uint32_t added = store_add_metric(adding.store, context, entry->epoch, name,
							  metric, adding.is_shared, adding.stripe);
			if (added && row) /* int64 and double are both words */
				thread_trace_add_sample(
					adding.thread, entry, row,
					&(struct row_value){.metric = added - 1,
							    .as.int64 = metric->value.int64});
			adding_end(&adding);
			if (added)
				continue;
		}
		struct session *session = adding_lock(entry);
		if (!session)
			continue;
		result = store_metric(&session->store, context, entry->epoch, name, metric, err);
		if (row && result == PROTON_OK)
			store_metric_add_sample(&session->store, row, name, metric);
		pthread_mutex_unlock(&session->lock);
	}
	return result;
}

/* The calling thread's innermost event for metrics at `where`; NULL if there is none. */
static const struct trace_event *open_event(struct proton_context where)
{
	struct thread *thread = thread_get();

	if (!thread)
		return NULL;
	if (thread->in_op && thread->op_event.count && thread->op.shadow == where.shadow)
		return &thread->op_event;
	for (size_t i = thread->stack.depth; i-- > 0;)
		if (thread->stack.scopes[i].event.count &&
		    (thread->stack.scopes[i].own == where.shadow ||
		     thread->stack.scopes[i].context == where.shadow))
			return &thread->stack.scopes[i].event;
	return NULL;
}

int proton_metrics_add(struct proton_context where, const struct proton_metric *metrics,
		       size_t count, struct proton_error *err)
{
	const struct config *config = session_config_get(where.sessions);
	int status = PROTON_OK;

	if (!config->count)
		return PROTON_OK;
	const struct trace_event *event = where.sessions & CONFIG_TRACED ? open_event(where) : NULL;
	for (size_t m = 0; m < count; m++) {
		struct proton_error *first = status == PROTON_OK ? err : NULL;
		int result = check_metric(&metrics[m], first);
		uint32_t name = METRIC_NAME_NONE;

		if (result == PROTON_OK) {
			name = metrics[m].name_id ? metrics[m].name_id - 1
						  : metric_names_add(metrics[m].name);
			if (name == METRIC_NAME_NONE)
				continue; /* counted as lost */
			/* Given for captured work that runs later: it counts at each execution. */
			if (captured_is_on() && captured_hold(where, name, &metrics[m]))
				continue;
			result = add_everywhere(where, config, name, &metrics[m], event, first);
		}
		if (status == PROTON_OK)
			status = result;
	}
	return status;
}

void proton_collective(struct proton_context where, uint64_t duration_ns)
{
	struct session_walk walk = {.sessions = where.sessions, .lock = adding_lock};

	while (session_walk(&walk)) {
		struct store *store = &walk.session->store;
		uint32_t epoch = walk.entry->epoch;
		uint32_t node = store_make_node(store, session_context(walk.entry, where), epoch);

		store_collectives_add(store, node, epoch, COLLECTIVE_HOST, duration_ns);
	}
}
