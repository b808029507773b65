/*
 * export/html_timeline: processes that do not fit into the page are counted, except for the first.
 * tests/python/test_report_timeline.py compares the slices with those of the joined trace.
 */
#include "unit/tap.h"

#include "export/html_timeline.h"
#include "model/trace_events.h"
#include "unit/viewer_build.h"

static void write_name(struct out *out, const struct export_view *view, uint32_t frame)
{
	out_text(out, profile_text(view->profile, view->profile->frames[frame].name));
}

/* A profile with a scope that was entered once, on one thread. */
static struct profile *traced(void)
{
	static const struct row_lane lane = {.kind = LANE_THREAD};
	static const struct row_event events[] = {
		{0}, {.start_ns = 1000, .end_ns = 1500, .kind = EVENT_SCOPE}};
	struct profile *profile = profile_new();
	struct profile_trace *trace = calloc(1, sizeof(*trace));

	CHECK(profile != NULL && trace != NULL);
	*trace = (struct profile_trace){.lanes = &lane,
					.lane_count = 1,
					.events = events,
					.event_count = 2,
					.nodes = malloc(sizeof(uint32_t)),
					.node_count = 1,
					.is_selected = malloc(sizeof(bool)),
					.epoch_count = 1};
	trace->nodes[0] = build_node(profile, 0, "step") + 1;
	trace->is_selected[0] = true;
	profile->trace = trace;
	return profile;
}

static const char *line_of(uint64_t slices_before, struct out *out)
{
	struct profile *profile = traced();
	uint8_t shown[] = {1, 1};
	uint32_t owner[] = {0, 1};
	struct export_view page = {
		.profile = profile, .shown = shown, .owner = owner, .write_name = write_name};
	struct html_timeline line;

	out_init(out, -1);
	html_timeline_init(&line, &page, out);
	line.slice_count = slices_before;
	for (uint32_t i = 0; i < 3; i++) {
		struct trace_part part = {
			.number = i, .count = 3, .name = "rank", .base_ns = 900, .shift_ns = i};

		html_timeline_add(&line, profile, &part);
	}
	html_timeline_end(&line);
	CHECK_DONE(out_finish(out, &err));
	profile_free(profile);
	out_byte(out, '\0');
	return out->bytes;
}

static size_t processes_of(const char *line)
{
	size_t count = 0;

	for (const char *at = line; (at = strstr(at, "[\"rank\"],\n[\"CPU Thread 0\",1]")) != NULL;
	     at++)
		count++;
	return count;
}

TEST(all_processes_that_fit_are_there)
{
	struct out out;
	const char *line = line_of(HTML_SLICES_MAX - 3, &out);

	CHECK_U64(processes_of(line), 3);
	CHECK(strstr(line, "\"leftOut\":0,\"names\":[\"step\"]") != NULL);
	CHECK(strstr(line, "\"duration\":602") != NULL);
	out_fini(&out);
}

TEST(the_others_are_counted)
{
	struct out out;
	const char *line = line_of(HTML_SLICES_MAX - 2, &out);

	CHECK_U64(processes_of(line), 2);
	CHECK(strstr(line, "\"leftOut\":1,") != NULL);
	out_fini(&out);
	/* The first one is whole, however large it is. */
	line = line_of(HTML_SLICES_MAX, &out);
	CHECK_U64(processes_of(line), 1);
	CHECK(strstr(line, "\"leftOut\":2,") != NULL);
	out_fini(&out);
}
