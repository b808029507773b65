/* Intra-kernel scopes in Chrome's trace event format, with the fields of upstream Proton. */
#include <inttypes.h>

#include "base/array.h"
#include "export/chrome_text.h"
#include "format/json_write.h"

/* One run of a warp: values that its slices share. */
struct chrome_run {
	uint64_t start_ns;
	char *args; /* "cat":"mm", then "args":{...} without the last brace */
	size_t cat_length;
	size_t length;
};

static void forget_runs(struct chrome_intra *intra)
{
	for (size_t i = 0; i < intra->run_count; i++)
		free(intra->runs[i].args);
	intra->run_count = 0;
}

void chrome_intra_fini(struct chrome_intra *intra)
{
	forget_runs(intra);
	for (size_t i = 0; intra->names && i < intra->timeline->profile->node_count; i++)
		free(intra->names[i]);
	FREE_ALL(intra->runs, intra->names);
	out_fini(&intra->pid);
	out_fini(&intra->tid);
}

/* ------------------------------------------------------------------ tracks */

static uint32_t warp_of(const struct row_lane *lane)
{
	return lane->number & 0xffff;
}

void chrome_intra_track(struct chrome_intra *intra, const struct timeline_track *track)
{
	const struct row_lane *lane = &intra->timeline->trace->lanes[track->lane];
	const struct row_lane *before = intra->lane;
	bool is_same_cta = before && before->device == lane->device && before->name == lane->name &&
			   before->id == lane->id;

	/*
	 * All runs of a warp come before its sub-tracks, because their slices lie inside the runs.
	 */
	if (!is_same_cta || warp_of(before) != warp_of(lane))
		forget_runs(intra);
	if (!is_same_cta) {
		char name[512];
		size_t length = timeline_group_name(intra->timeline, track, name, sizeof(name));

		intra->pid.length = 0;
		out_text(&intra->pid, "\"pid\":");
		json_quote(&intra->pid, name, length);
	}
	intra->tid.length = 0;
	out_printf(&intra->tid, "\"tid\":\"warp %u (line %u)\"", warp_of(lane), lane->number >> 16);
	intra->lane = lane;
}

/* ------------------------------------------------------------------ slices */

static const char *name_of(struct chrome_intra *intra, uint32_t node)
{
	const struct profile *profile = intra->timeline->profile;
	AT_END(out_fini) struct out made = OUT_IN_MEMORY;
	size_t length;

	if (intra->names[node])
		return intra->names[node];
	chrome_quote_frame(profile, &made, profile->nodes[node].frame);
	intra->names[node] = out_take(&made, &length);
	out_fail(intra->out, intra->names[node] ? 0 : ENOMEM);
	return intra->names[node] ? intra->names[node] : "\"\"";
}

/* A warp's own slice is not drawn; its inner slices get its times and the kernel's call stack. */
static void add_run(struct chrome_intra *intra, const struct timeline_slice *slice)
{
	const struct row_event *event = slice->event;
	struct chrome_run run = {.start_ns = slice->start_ns};
	AT_END(out_fini) struct out made = OUT_IN_MEMORY;

	out_text(&made, "\"cat\":");
	out_text(&made, name_of(intra, slice->node));
	out_byte(&made, ',');
	run.cat_length = made.length;
	out_printf(&made,
		   "\"args\":{\"Init Time (ns)\":%" PRIu64 ",\"Post Final Time (ns)\":%" PRIu64
		   ",\"Finalization Time (ns)\":%u,\"Frequency (MHz)\":%u,\"call_stack\":",
		   event->start_ns, event->end_ns + event->detail, event->detail, event->flags);
	chrome_call_stack(intra->timeline->profile, &made, slice->node);
	run.args = out_take(&made, &run.length);
	if (run.args && ARRAY_ADD(intra->runs, intra->run_count, run))
		return;
	free(run.args);
	out_fail(intra->out, ENOMEM);
}

static void begin_slice(struct chrome_intra *intra, const struct timeline_slice *slice)
{
	if (*intra->has_events)
		out_bytes(intra->out, ",\n", 2);
	*intra->has_events = true;
	out_text(intra->out, "{\"ph\":\"X\",\"name\":");
	out_text(intra->out, name_of(intra, slice->node));
	out_byte(intra->out, ',');
	out_bytes(intra->out, intra->pid.bytes, intra->pid.length);
	out_byte(intra->out, ',');
}

static void write_times(struct chrome_intra *intra, uint64_t start_ns, uint64_t length_ns)
{
	char text[96];
	char *at = PUT_US(text, ",\"ts\":", start_ns - intra->timeline->base_ns);

	at = PUT(PUT_US(at, ",\"dur\":", length_ns), ",");
	out_bytes(intra->out, text, (size_t)(at - text));
}

static void end_slice(struct chrome_intra *intra, const struct timeline_slice *slice,
		      const struct chrome_run *run)
{
	if (run)
		out_bytes(intra->out, run->args + run->cat_length, run->length - run->cat_length);
	else
		out_text(intra->out, "\"args\":{\"call_stack\":[\"ROOT\"]");
	if (slice->event->flags & EVENT_PARTIAL)
		out_text(intra->out, ",\"partial\":true");
	out_bytes(intra->out, "}}", 2);
}

/* Asynchronous work with its end on another warp: one end on each warp, joined by a number. */
static void write_ends(struct chrome_intra *intra, const struct timeline_slice *slice,
		       const struct chrome_run *run)
{
	const struct row_lane *lanes = intra->timeline->trace->lanes;

	for (int is_end = 0; is_end < 2; is_end++) {
		const struct timeline_track *track = is_end ? slice->end_track : slice->track;

		begin_slice(intra, slice);
		out_printf(intra->out, "\"tid\":\"warp %u (line 0)\"",
			   warp_of(&lanes[track->lane]));
		write_times(intra, is_end ? slice->end_ns : slice->start_ns, 0);
		out_printf(intra->out, "\"cat\":\"flow\",\"bind_id\":%u,\"%s\":true,", slice->row,
			   is_end ? "flow_in" : "flow_out");
		end_slice(intra, slice, run);
	}
}

void chrome_intra_slice(struct chrome_intra *intra, const struct timeline_slice *slice)
{
	const struct chrome_run *run = NULL;

	if (slice->event->kind == EVENT_UNIT) {
		add_run(intra, slice);
		return;
	}
	/* The run of the warp in which the slice started; NULL if its record is missing. */
	size_t count =
		ARRAY_COUNT_BEFORE(intra->run_count, i, intra->runs[i].start_ns <= slice->start_ns);
	if (intra->run_count)
		run = &intra->runs[count ? count - 1 : 0];
	if (slice->end_track) {
		write_ends(intra, slice, run);
		return;
	}
	begin_slice(intra, slice);
	out_bytes(intra->out, intra->tid.bytes, intra->tid.length);
	write_times(intra, slice->start_ns, slice->end_ns - slice->start_ns);
	if (slice->event->flags & EVENT_ASYNC)
		out_text(intra->out, "\"cat\":\"async\",");
	else if (run)
		out_bytes(intra->out, run->args, run->cat_length);
	end_slice(intra, slice, run);
}
