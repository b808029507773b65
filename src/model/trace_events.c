/* Trace events of a profile: ownership of their rows. */
#include "model/trace_events.h"

#include "base/array.h"

static const struct {
	enum table_id id;
	size_t member; /* offset of the pointer to its rows */
} tables[] = {
	{TABLE_LANES, offsetof(struct profile_trace, lanes)},
	{TABLE_EVENTS, offsetof(struct profile_trace, events)},
	{TABLE_SAMPLES, offsetof(struct profile_trace, samples)},
	{TABLE_LAUNCHES, offsetof(struct profile_trace, launches)},
	{TABLE_VECTORS, offsetof(struct profile_trace, words)},
};

int trace_own(struct profile_trace *trace, struct profile_view *view, char **file,
	      struct proton_error *err)
{
	if (file) {
		trace->file = *file;
		*file = NULL;
	}
	for (size_t i = 0; i < ARRAY_LENGTH(tables); i++) {
		enum table_id id = tables[i].id;
		size_t bytes = view->rows[id] * profile_row_bytes[id];

		if (view->owned[id] || !bytes || trace->file) {
			trace->owned[id] = view->owned[id];
			view->owned[id] = NULL;
			continue;
		}
		trace->owned[id] = malloc(bytes);
		if (!trace->owned[id])
			return err_nomem(err);
		memcpy(trace->owned[id], view->table[id], bytes);
		memcpy((char *)trace + tables[i].member, &trace->owned[id], sizeof(void *));
	}
	return PROTON_OK;
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
