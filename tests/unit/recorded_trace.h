/* Support for trace tests: sessions with data="trace", and lookup of their events by name. */
#pragma once

#include "unit/recorded.h"

__attribute__((unused)) static int trace_start_as(const char *name, const char *backend,
						  const char *context, struct proton_error *err)
{
	return rec_try_start(
		(struct proton_session_options){
			.name = rec_path(name),
			.data = "trace",
			.backend = backend,
			.context = context,
		},
		err);
}

__attribute__((unused)) static int trace_start(const char *name)
{
	return REC_START(.name = rec_path(name), .data = "trace", .context = "shadow");
}

/* The path of an event's node, "a/b/c". */
__attribute__((unused)) static const char *event_path(const struct profile *profile,
						      const struct row_event *event)
{
	static char text[512];
	uint32_t path[16];
	uint32_t depth = 0;
	size_t used = 0;

	for (uint32_t at = profile->trace->nodes[event->node] - 1; at && depth < 16;
	     at = profile->nodes[at].parent)
		path[depth++] = at;
	text[0] = '\0';
	while (depth) {
		if (used)
			text[used++] = '/';
		used += profile_frame_text(profile, profile->nodes[path[--depth]].frame,
					   text + used, sizeof(text) - used);
	}
	return text;
}

/* Row of the `nth` event (from 0) of that kind at that path, in the order of rows; 0: none. */
__attribute__((unused)) static uint32_t find_event(const struct profile *profile,
						   enum event_kind kind, const char *path, int nth)
{
	CHECK(profile->trace);
	for (uint32_t row = 1; row < profile->trace->event_count; row++) {
		const struct row_event *event = trace_event(profile->trace, row);

		if (event && event->kind == kind && strcmp(event_path(profile, event), path) == 0 &&
		    nth-- == 0)
			return row;
	}
	return 0;
}

/* The same, which must be there. */
__attribute__((unused)) static const struct row_event *need_event(const struct profile *profile,
								  enum event_kind kind,
								  const char *path)
{
	uint32_t row = find_event(profile, kind, path, 0);

	if (!row)
		FAIL("no event of kind %d at %s", (int)kind, path);
	return &profile->trace->events[row];
}

__attribute__((unused)) static uint64_t count_events(const struct profile *profile)
{
	uint64_t count = 0;

	for (uint64_t row = 1; row < profile->trace->event_count; row++)
		count += trace_event(profile->trace, row) != NULL;
	return count;
}

/* Metric values of all events. */
__attribute__((unused)) static uint64_t count_samples_of_events(const struct profile *profile)
{
	uint64_t count = 0;

	for (uint64_t row = 1; row < profile->trace->event_count; row++) {
		const struct row_event *event = trace_event(profile->trace, row);

		for (uint32_t at = event ? event->link : 0; at;
		     at = profile->trace->samples[at].next)
			count++;
	}
	return count;
}
