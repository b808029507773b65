/* Trace events of a profile: ownership of their rows. */
#include "model/trace_events.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static int own_table(struct profile_trace *trace, struct profile_view *view, enum table_id table,
		     const void **rows, uint64_t count, struct proton_error *err)
{
	size_t bytes = count * profile_row_bytes[table];

	if (!bytes)
		return PROTON_OK;
	if (view->owned[table] && view->owned[table] == *rows) {
		trace->owned[table] = view->owned[table];
		view->owned[table] = NULL;
		return PROTON_OK;
	}
	if (trace->file)
		return PROTON_OK;
	trace->owned[table] = malloc(bytes);
	if (!trace->owned[table])
		return err_nomem(err);
	memcpy(trace->owned[table], *rows, bytes);
	*rows = trace->owned[table];
	return PROTON_OK;
}

int trace_own(struct profile_trace *trace, struct profile_view *view, char **file,
	      struct proton_error *err)
{
	const void *lanes = trace->lanes;
	const void *events = trace->events;
	const void *samples = trace->samples;
	const void *launches = trace->launches;
	const void *words = trace->words;
	int status;

	if (file) {
		trace->file = *file;
		*file = NULL;
	}
	status = own_table(trace, view, TABLE_LANES, &lanes, trace->lane_count, err);
	if (status == PROTON_OK)
		status = own_table(trace, view, TABLE_EVENTS, &events, trace->event_count, err);
	if (status == PROTON_OK)
		status = own_table(trace, view, TABLE_SAMPLES, &samples, trace->sample_count, err);
	if (status == PROTON_OK)
		status =
			own_table(trace, view, TABLE_LAUNCHES, &launches, trace->launch_count, err);
	if (status == PROTON_OK)
		status = own_table(trace, view, TABLE_VECTORS, &words, trace->word_count, err);
	trace->lanes = lanes;
	trace->events = events;
	trace->samples = samples;
	trace->launches = launches;
	trace->words = words;
	return status;
}

void trace_free(struct profile_trace *trace)
{
	if (!trace)
		return;
	for (int id = 0; id < TABLE_COUNT; id++)
		free(trace->owned[id]);
	FREE_ALL(trace->file, trace->nodes, trace->metrics, trace->is_widened, trace->devices,
		 trace->strings, trace->is_selected, trace);
}
