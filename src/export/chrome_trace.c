/*
 * Chrome trace event format (JSON) as written by upstream Proton and torch.profiler, for
 * ui.perfetto.dev, chrome://tracing and scripts. Fields and track names are those of upstream, with
 * additions; docs/guide/traces.md lists them.
 *
 * A million events are hundreds of megabytes of text. Lines are therefore built from cached parts:
 * the text that all slices of a node share is built once.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "export/chrome_text.h"
#include "export/export.h"
#include "export/timeline.h"
#include "format/gzip_write.h"
#include "format/json_write.h"

/* Maximum size of the cache of node texts; beyond it, they are built for each slice. */
#define KEPT_BYTES_MAX (32u << 20)

struct chrome {
	const struct trace_part *part;
	struct out *out;
	struct timeline timeline;
	const struct profile *profile;
	struct chrome_intra intra;
	char **kept; /* by node: "name" and the beginning of "args", or NULL */
	uint32_t *kept_length;
	size_t kept_bytes;
	bool is_intra;    /* the session instruments kernels: nothing else is written */
	bool has_devices; /* events ran on several devices */
	bool has_events;
};

/* ------------------------------------------------------------------ nodes */

/*
 * Writes the text that the slices of `node` share, from the cache if present: "name":"k" and
 * "args":{"call_stack":["ROOT","a","k"], and the fields between them.
 */
static void write_node(struct chrome *chrome, uint32_t node)
{
	const struct profile *profile = chrome->profile;
	struct out made = OUT_IN_MEMORY;

	if (chrome->kept[node]) {
		out_bytes(chrome->out, chrome->kept[node], chrome->kept_length[node]);
		return;
	}
	out_text(&made, "\"name\":");
	if (node)
		chrome_quote_frame(profile, &made, profile->nodes[node].frame);
	else
		out_text(&made, "\"ROOT\"");
	out_text(&made, ",\"args\":{\"call_stack\":");
	chrome_call_stack(profile, &made, node);
	out_bytes(chrome->out, made.bytes, made.length);
	out_fail(chrome->out, made.errnum);
	if (node && chrome->kept_bytes + made.length < KEPT_BYTES_MAX) {
		chrome->kept[node] = made.bytes;
		chrome->kept_length[node] = (uint32_t)made.length;
		chrome->kept_bytes += made.length;
	} else {
		out_fini(&made);
	}
}

/* ------------------------------------------------------------------ events */

static void begin_event(struct chrome *chrome)
{
	if (chrome->part->gzip)
		gzip_give(chrome->part->gzip, chrome->out, GZIP_PIECE_BYTES);
	if (chrome->has_events)
		out_bytes(chrome->out, ",\n", 2);
	chrome->has_events = true;
}

/* A number that no flow or scope of another process has, and that JavaScript represents. */
static uint64_t unique(const struct chrome *chrome, uint32_t row)
{
	return row + ((uint64_t)chrome->part->number << 32);
}

/* Upstream's track names; with several devices, the device index is added. */
static void name_track(const struct chrome *chrome, const struct timeline_track *track, char *text,
		       size_t capacity)
{
	const struct row_lane *lane = &chrome->timeline.trace->lanes[track->lane];
	char device[32] = "";
	char part[32] = "";

	if (track->kind == TRACK_THREAD) {
		snprintf(text, capacity, "CPU Thread %u", lane->number);
		return;
	}
	if (chrome->has_devices)
		snprintf(device, sizeof(device), " on GPU %d",
			 (int)timeline_device(&chrome->timeline, track->lane));
	if (track->part)
		snprintf(part, sizeof(part), " (%u)", track->part + 1);
	snprintf(text, capacity, "%s %" PRIu64 "%s%s",
		 track->kind == TRACK_GRAPH     ? "Graph: Stream"
		 : track->kind == TRACK_MODULES ? "Modules: Stream"
						: "GPU Stream",
		 lane->id, device, part);
}

/* The name of a process or thread, and its place from top to bottom. */
static void write_label(struct chrome *chrome, const char *what, uint32_t tid, const char *name,
			uint32_t order)
{
	uint32_t pid = chrome->part->number;

	begin_event(chrome);
	out_printf(chrome->out,
		   "{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":",
		   what, pid, tid);
	json_quote(chrome->out, name, strlen(name));
	out_printf(chrome->out,
		   "}},\n{\"ph\":\"M\",\"name\":\"%s_sort_index\",\"pid\":%u,\"tid\":%u,"
		   "\"args\":{\"sort_index\":%u}}",
		   what, pid, tid, order);
}

static void write_track(void *context, const struct timeline_track *track)
{
	struct chrome *chrome = context;
	char name[128];

	if (track->kind == TRACK_UNIT)
		chrome_intra_track(&chrome->intra, track);
	if (track->kind == TRACK_UNIT || chrome->is_intra)
		return;
	name_track(chrome, track, name, sizeof(name));
	write_label(chrome, "thread", track->tid, name, track->order);
}

/* The phase, category and name of one end of a flow that is bound to the enclosing slice. */
#define ARROW_END(phase, category, name)                                                           \
	"{\"ph\":\"" phase "\",\"bp\":\"e\",\"cat\":\"" category "\",\"name\":\"" name "\",\"id\":"

/* One end of a flow. Another event follows. */
static char *put_arrow_end(const struct chrome *chrome, char *at, const char *kind,
			   const struct timeline_slice *slice, const struct timeline_track *track,
			   uint64_t ns)
{
	at = put_u64(put_text(at, kind, strlen(kind)), unique(chrome, slice->row));
	at = PUT_U64(at, ",\"pid\":", chrome->part->number);
	at = PUT_U64(at, ",\"tid\":", track->tid);
	return PUT(PUT_US(at, ",\"ts\":", ns - chrome->timeline.base_ns), "},\n");
}

/* Flows to the start of the work: from its launch, and to backward kernels from their scope. */
static void write_arrows(struct chrome *chrome, const struct timeline_slice *slice)
{
	char *at = out_reserve(chrome->out, 1024);

	if (!at)
		return;
	if (slice->has_arrow) {
		at = put_arrow_end(chrome, at, ARROW_END("s", "flow", "launch->kernel"), slice,
				   slice->launch_track, slice->launch->start_ns);
		at = put_arrow_end(chrome, at, ARROW_END("f", "flow", "launch->kernel"), slice,
				   slice->track, slice->start_ns);
	}
	if (slice->forward) {
		at = put_arrow_end(chrome, at, ARROW_END("s", "backward", "forward->backward"),
				   slice, slice->forward_track, slice->forward->start_ns);
		at = put_arrow_end(chrome, at, ARROW_END("f", "backward", "forward->backward"),
				   slice, slice->track, slice->start_ns);
	}
	out_commit(chrome->out, at);
}

/* Device, stream and launch of the event. */
static void write_device_args(struct chrome *chrome, const struct timeline_slice *slice)
{
	const struct profile_trace *trace = chrome->timeline.trace;
	const struct row_event *event = slice->event;
	uint32_t device = timeline_device(&chrome->timeline, slice->track->lane);
	char *at = out_reserve(chrome->out, 512);

	if (!at)
		return;
	if (device != UINT32_MAX)
		at = PUT_U64(at, ",\"device\":", device);
	at = PUT_U64(at, ",\"stream\":", trace->lanes[slice->track->lane].id);
	if (slice->launch)
		at = PUT_U64(at, ",\"correlation\":", slice->launch->detail);
	if (event->kind != EVENT_KERNEL) {
		at = PUT_U64(at, ",\"bytes\":", trace_bytes(trace, event));
	} else if (event->detail && event->detail < trace->launch_count) {
		const struct launch_config *config = &trace->launches[event->detail].config;

		at = PUT_U64(at, ",\"grid\":[", config->grid[0]);
		at = PUT_U64(at, ",", config->grid[1]);
		at = PUT_U64(at, ",", config->grid[2]);
		at = PUT_U64(at, "],\"block\":[", config->block[0]);
		at = PUT_U64(at, ",", config->block[1]);
		at = PUT_U64(at, ",", config->block[2]);
		at = PUT_U64(at, "],\"registers_per_thread\":", config->registers_per_thread);
		at = PUT_U64(at, ",\"shared_memory\":", shared_bytes_of(config));
	}
	out_commit(chrome->out, at);
}

static const char *category_of(const struct timeline_slice *slice, bool has_metrics)
{
	if (!slice->event)
		return "scope"; /* of a graph */
	return has_metrics && slice->event->kind == EVENT_SCOPE
		       ? "metric"
		       : timeline_categories[slice->event->kind];
}

/* The fields for track, time and category. */
static void write_head_of(struct chrome *chrome, const struct timeline_slice *slice,
			  const char *category)
{
	char *at = out_reserve(chrome->out, 256);

	if (!at)
		return;
	at = PUT_U64(at, "{\"ph\":\"X\",\"pid\":", chrome->part->number);
	at = PUT_U64(at, ",\"tid\":", slice->track->tid);
	at = PUT_US(at, ",\"ts\":", slice->start_ns - chrome->timeline.base_ns);
	at = PUT_US(at, ",\"dur\":", slice->end_ns - slice->start_ns);
	at = put_text(PUT(at, ",\"cat\":\""), category, strlen(category));
	out_commit(chrome->out, PUT(at, "\","));
}

/* "name":... and the beginning of "args". */
static void write_name(struct chrome *chrome, const struct timeline_slice *slice,
		       const struct chrome_values *values)
{
	const struct profile *profile = chrome->profile;
	bool is_launch = slice->event && slice->event->kind == EVENT_LAUNCH;

	if (is_launch && !(slice->event->flags & EVENT_NAMED)) {
		/* The event has no frame: its node is the context in which it happened. */
		out_printf(chrome->out, "\"name\":\"%s\",\"args\":{\"correlation\":",
			   timeline_launch_name(slice->event->flags));
		out_u64(chrome->out, slice->event->detail);
		return;
	}
	if (values->count && slice->event->kind == EVENT_SCOPE && slice->node) {
		out_text(chrome->out, "\"name\":");
		chrome_values_quote(values, chrome->out, profile->nodes[slice->node].frame);
		out_text(chrome->out, ",\"args\":{\"call_stack\":");
		chrome_call_stack(profile, chrome->out, slice->node);
	} else {
		write_node(chrome, slice->node);
	}
	if (is_launch && slice->event->detail) {
		out_text(chrome->out, ",\"correlation\":");
		out_u64(chrome->out, slice->event->detail);
	}
}

static void write_slice(void *context, const struct timeline_slice *slice)
{
	struct chrome *chrome = context;
	struct chrome_values values;

	if (slice->track->kind == TRACK_UNIT)
		chrome_intra_slice(&chrome->intra, slice);
	if (slice->track->kind == TRACK_UNIT || chrome->is_intra)
		return;
	chrome_values_read(&values, &chrome->timeline, timeline_samples(&chrome->timeline, slice));
	begin_event(chrome);
	if (slice->has_arrow || slice->forward)
		write_arrows(chrome, slice);
	write_head_of(chrome, slice, category_of(slice, values.count != 0));
	write_name(chrome, slice, &values);
	if (slice->event && slice->event->kind == EVENT_SCOPE) {
		out_text(chrome->out, ",\"scope_id\":");
		out_u64(chrome->out, unique(chrome, slice->row));
	}
	if (slice->event && slice->track->kind == TRACK_STREAM)
		write_device_args(chrome, slice);
	if (slice->is_unfinished)
		out_text(chrome->out, ",\"unfinished\":true");
	if (values.count)
		chrome_values_write(&values, chrome->out);
	out_bytes(chrome->out, "}}", 2);
}

static void ignore_track_end(void *context, const struct timeline_track *track)
{
}

/* ------------------------------------------------------------------ the whole */

/* Session information and losses. */
static void write_info(const struct chrome *chrome, struct json_writer *json)
{
	const struct profile *profile = chrome->profile;

	ARRAY_EACH(pair, profile->info, profile->info_count) {
		json_key_string(json, profile_text(profile, pair->key),
				profile_text(profile, pair->value),
				string_length(&profile->strings, pair->value));
	}
	json_key_uint64(json, "pid", profile->pid);
	ARRAY_EACH(counter, profile->counters, profile->counter_count) {
		if (!counter->is_loss || !counter->value)
			continue;
		json_key_uint64(json, profile_text(profile, counter->name), counter->value);
	}
}

/* The beginning of the file; the information of several processes is in their names. */
static void write_head(struct chrome *chrome)
{
	struct json_writer json;

	json_writer_init(&json, chrome->out, false);
	json_begin_object(&json);
	if (chrome->timeline.base_ns)
		json_key_uint64(&json, "baseTimeNanoseconds", chrome->timeline.base_ns);
	json_key_text(&json, "displayTimeUnit", chrome->is_intra ? "ns" : "us");
	json_key_object(&json, "otherData");
	if (chrome->part->count == 1)
		write_info(chrome, &json);
	json_end_object(&json);
	out_text(chrome->out, ",\"traceEvents\":[\n");
}

/* Whether events ran on several GPUs, and only instrumented kernels are shown. */
static void look_at_lanes(struct chrome *chrome)
{
	const struct profile_trace *trace = chrome->timeline.trace;
	const char *backend = profile_info_text(chrome->profile, "backend");
	/* A profile may not name the backend: assume the usual case. */
	bool instruments = !*backend || strcmp(backend, "instrumentation") == 0;
	bool has_streams = false;
	uint32_t first = UINT32_MAX;

	for (uint32_t i = 0; i < trace->lane_count; i++) {
		if (chrome->timeline.first[i] == chrome->timeline.first[i + 1])
			continue;
		chrome->is_intra |= instruments && trace->lanes[i].kind == LANE_UNIT;
		if (trace->lanes[i].kind != LANE_STREAM)
			continue;
		if (has_streams && timeline_device(&chrome->timeline, i) != first)
			chrome->has_devices = true;
		first = timeline_device(&chrome->timeline, i);
		has_streams = true;
	}
}

static int write_events(struct chrome *chrome, struct proton_error *err)
{
	const struct timeline_sink sink = {chrome, write_track, write_slice, ignore_track_end};
	size_t nodes = chrome->profile->node_count;

	chrome->kept = calloc(nodes, sizeof(*chrome->kept));
	chrome->kept_length = calloc(nodes, sizeof(*chrome->kept_length));
	chrome->intra.names = calloc(nodes, sizeof(*chrome->intra.names));
	if (!chrome->kept || !chrome->kept_length || !chrome->intra.names)
		return err_nomem(err);
	look_at_lanes(chrome);
	if (chrome->is_intra && chrome->part->count > 1)
		return err_set(err, PROTON_E_INVALID,
			       "Chrome's format has no ranks for kernels that are instrumented; "
			       "use perfetto");
	if (chrome->part->number == 0)
		write_head(chrome);
	chrome->has_events = chrome->part->number > 0;
	if (!chrome->is_intra && chrome->timeline.count)
		write_label(chrome, "process", 0, chrome->part->name, chrome->part->number);
	timeline_walk(&chrome->timeline, &sink, chrome->out);
	if (chrome->part->number + 1 == chrome->part->count)
		out_text(chrome->out, "\n]}\n");
	if (chrome->part->gzip)
		gzip_give(chrome->part->gzip, chrome->out, 0);
	return PROTON_OK;
}

int export_chrome_part(const struct profile *profile, const struct trace_part *part,
		       struct out *out, struct proton_error *err)
{
	struct chrome chrome = {.part = part, .out = out, .profile = profile};
	AT_END(out_fini) struct out pending = OUT_IN_MEMORY;

	TRY(timeline_init(&chrome.timeline, profile, err));
	if (part->gzip)
		chrome.out = &pending;
	if (part->count > 1)
		chrome.timeline.base_ns = part->base_ns - (uint64_t)part->shift_ns;
	chrome.intra = (struct chrome_intra){
		.timeline = &chrome.timeline,
		.out = chrome.out,
		.has_events = &chrome.has_events,
		.pid = OUT_IN_MEMORY,
		.tid = OUT_IN_MEMORY,
	};
	int status = write_events(&chrome, err);
	for (size_t i = 0; chrome.kept && i < profile->node_count; i++)
		free(chrome.kept[i]);
	FREE_ALL(chrome.kept, chrome.kept_length);
	chrome_intra_fini(&chrome.intra);
	timeline_fini(&chrome.timeline);
	return status;
}

int export_chrome_trace(const struct profile *profile, struct out *out, struct proton_error *err)
{
	return export_chrome_part(profile, &(struct trace_part){.count = 1, .name = "Trace"}, out,
				  err);
}

int export_chrome_gzip(const struct profile *profile, struct out *out, struct proton_error *err)
{
	struct gzip_writer gzip;
	struct trace_part part = {.count = 1, .name = "Trace", .gzip = &gzip};

	gzip_begin(&gzip, out);
	int status = export_chrome_part(profile, &part, out, err);
	gzip_end(&gzip);
	return status;
}
