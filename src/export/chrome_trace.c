/*
 * Chrome's trace event format (JSON), as the first Proton and torch write it: what ui.perfetto.dev,
 * chrome://tracing and many scripts read. docs/guide/traces.md lists tracks and arguments.
 *
 * A million events are hundreds of megabytes of text, so lines are put together by hand from parts
 * that are made once: what a node's slices have in common is kept from the first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/export.h"
#include "export/timeline.h"
#include "format/json_write.h"

/* What is kept of nodes, at most; the rest is made anew for each slice. */
#define KEPT_BYTES_MAX (32u << 20)
#define CALL_STACK_MAX 1024u

struct chrome {
	struct out *out;
	struct timeline timeline;
	const struct profile *profile;
	struct json_writer json; /* for values */
	char **names;            /* by node: as JSON, for slices inside kernels */
	char **kept;             /* by node: "name" and the beginning of "args", or NULL */
	uint32_t *kept_length;
	size_t kept_bytes;
	bool has_events;
	bool failed;
};

static char *put_u64(char *at, uint64_t value)
{
	char digits[20];
	size_t count = 0;

	do {
		digits[count++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (count)
		*at++ = digits[--count];
	return at;
}

/* Nanoseconds as microseconds with all three decimals. */
static char *put_us(char *at, uint64_t ns)
{
	uint64_t rest = ns % 1000;

	at = put_u64(at, ns / 1000);
	*at++ = '.';
	*at++ = (char)('0' + rest / 100);
	*at++ = (char)('0' + rest / 10 % 10);
	*at++ = (char)('0' + rest % 10);
	return at;
}

static char *put_text(char *at, const char *text, size_t length)
{
	memcpy(at, text, length);
	return at + length;
}

#define PUT(at, literal) put_text(at, literal, sizeof(literal) - 1)

/* ------------------------------------------------------------------ nodes */

static void quote_frame(const struct profile *profile, struct out *out, uint32_t frame)
{
	char text[1024];
	size_t length = profile_frame_text(profile, frame, text, sizeof(text));

	if (length >= sizeof(text))
		length = sizeof(text) - 1;
	json_quote(out, text, length);
}

/* "name":"k","args":{"call_stack":["ROOT","a"] of `node`. */
static void make_node(const struct profile *profile, uint32_t node, const char *prefix,
		      struct out *out)
{
	uint32_t path[CALL_STACK_MAX];
	uint32_t depth = 0;

	out_text(out, "\"name\":");
	if (node) {
		quote_frame(profile, out, profile->nodes[node].frame);
		for (uint32_t at = profile->nodes[node].parent; at && depth < CALL_STACK_MAX;
		     at = profile->nodes[at].parent)
			path[depth++] = at;
	} else {
		json_quote(out, prefix, strlen(prefix));
	}
	out_text(out, ",\"args\":{\"call_stack\":[\"ROOT\"");
	while (depth) {
		out_byte(out, ',');
		quote_frame(profile, out, profile->nodes[path[--depth]].frame);
	}
	out_byte(out, ']');
}

/* Writes what the slices of `node` have in common, from what is kept if it is. */
static void write_node(struct chrome *chrome, uint32_t node, const char *root_name)
{
	struct out made;
	size_t length;
	char *text;

	if (chrome->kept[node]) {
		out_bytes(chrome->out, chrome->kept[node], chrome->kept_length[node]);
		return;
	}
	out_init(&made, -1);
	make_node(chrome->profile, node, root_name, &made);
	text = out_take(&made, &length);
	out_fini(&made);
	if (!text) {
		chrome->failed = true;
		return;
	}
	out_bytes(chrome->out, text, length);
	if (node && chrome->kept_bytes + length < KEPT_BYTES_MAX) {
		chrome->kept[node] = text;
		chrome->kept_length[node] = (uint32_t)length;
		chrome->kept_bytes += length;
	} else {
		free(text);
	}
}

/* ------------------------------------------------------------------ metrics */

static void write_vector(struct chrome *chrome, uint64_t at, bool is_double)
{
	const struct profile_trace *trace = chrome->timeline.trace;
	uint64_t count = at < trace->word_count ? trace->words[at] : 0;

	if (count > trace->word_count - at - 1)
		count = 0;
	json_begin_array(&chrome->json);
	for (uint64_t i = 0; i < count; i++) {
		double value;

		memcpy(&value, &trace->words[at + 1 + i], sizeof(value));
		if (is_double)
			json_double(&chrome->json, value);
		else
			json_int64(&chrome->json, (int64_t)trace->words[at + 1 + i]);
	}
	json_end_array(&chrome->json);
}

static void write_value(struct chrome *chrome, const struct profile_metric *metric,
			const struct row_sample *sample)
{
	const struct profile_trace *trace = chrome->timeline.trace;
	uint32_t string = 0;

	json_writer_init(&chrome->json, chrome->out, false);
	switch (metric->type) {
	case PROTON_METRIC_INT64:
		json_int64(&chrome->json, sample->as.int64);
		break;
	case PROTON_METRIC_DOUBLE:
		json_double(&chrome->json, sample->as.float64);
		break;
	case PROTON_METRIC_STRING:
		if (sample->as.string < trace->string_count && trace->strings[sample->as.string])
			string = trace->strings[sample->as.string] - 1;
		json_string(&chrome->json, profile_text(chrome->profile, string),
			    string_length(&chrome->profile->strings, string));
		break;
	default:
		write_vector(chrome, sample->as.vector,
			     metric->type == PROTON_METRIC_DOUBLE_VECTOR);
		break;
	}
}

static void write_metric_name(struct chrome *chrome, const struct profile_metric *metric)
{
	json_quote(chrome->out, profile_text(chrome->profile, metric->name),
		   string_length(&chrome->profile->strings, metric->name));
}

/* ,"metrics":{...} */
static void write_metrics(struct chrome *chrome, uint32_t first)
{
	const struct profile_metric *metric;
	const struct row_sample *sample;
	uint32_t last = UINT32_MAX; /* lists lead backwards: what does not is damaged */
	bool is_first = true;

	out_text(chrome->out, ",\"metrics\":{");
	for (uint32_t at = first; at < last; last = at, at = sample->next) {
		sample = timeline_sample(&chrome->timeline, at, &metric);
		if (!sample)
			break;
		if (!is_first)
			out_byte(chrome->out, ',');
		is_first = false;
		write_metric_name(chrome, metric);
		out_byte(chrome->out, ':');
		write_value(chrome, metric, sample);
	}
	out_byte(chrome->out, '}');
}

/* ------------------------------------------------------------------ events */

static void begin_event(struct chrome *chrome)
{
	if (chrome->has_events)
		out_bytes(chrome->out, ",\n", 2);
	chrome->has_events = true;
}

static void write_host_track(struct chrome *chrome, const struct timeline_track *track)
{
	char name[128];
	size_t length = timeline_track_name(&chrome->timeline, track, name, sizeof(name));

	begin_event(chrome);
	out_printf(
		chrome->out,
		"{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":%u,\"args\":{\"name\":",
		track->tid);
	json_quote(chrome->out, name, length);
	out_printf(chrome->out,
		   "}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":0,\"tid\":%u,"
		   "\"args\":{\"sort_index\":%u}}",
		   track->tid, track->order);
}

/* A CTA is a process, a line of a warp a thread of it. */
static void write_unit_track(struct chrome *chrome, const struct timeline_track *track)
{
	char name[512];
	size_t length;

	if (track->is_first_of_pid) {
		length = timeline_group_name(&chrome->timeline, track, name, sizeof(name));
		begin_event(chrome);
		out_printf(chrome->out,
			   "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,"
			   "\"args\":{\"name\":",
			   track->pid);
		json_quote(chrome->out, name, length);
		out_printf(chrome->out,
			   "}},\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,"
			   "\"args\":{\"sort_index\":%u}}",
			   track->pid, track->pid);
	}
	if (track->is_again)
		return;
	length = timeline_track_name(&chrome->timeline, track, name, sizeof(name));
	begin_event(chrome);
	out_printf(chrome->out,
		   "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%u,\"tid\":%u,"
		   "\"args\":{\"name\":",
		   track->pid, track->tid);
	json_quote(chrome->out, name, length);
	/* Without it viewers sort by name, and warp 10 stands before warp 2. */
	out_printf(chrome->out,
		   "}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%u,\"tid\":%u,"
		   "\"args\":{\"sort_index\":%u}}",
		   track->pid, track->tid, track->tid);
}

static void write_track(void *context, const struct timeline_track *track)
{
	struct chrome *chrome = context;

	if (track->kind == TRACK_UNIT)
		write_unit_track(chrome, track);
	else
		write_host_track(chrome, track);
}

/* One end of an arrow: bound to the slice around it. */
static char *put_arrow_end(char *at, const char *kind, const struct timeline_slice *slice,
			   const struct timeline_track *track, uint64_t ns)
{
	at = PUT(at, ",\n{\"ph\":");
	at = put_text(at, kind, strlen(kind));
	at = PUT(at, ",\"cat\":\"flow\",\"name\":");
	at = slice->end_track ? PUT(at, "\"async\"") : PUT(at, "\"launch->kernel\"");
	at = PUT(at, ",\"id\":");
	at = put_u64(at, slice->row);
	at = PUT(at, ",\"pid\":");
	at = put_u64(at, track->pid);
	at = PUT(at, ",\"tid\":");
	at = put_u64(at, track->tid);
	at = PUT(at, ",\"ts\":");
	at = put_us(at, ns);
	*at++ = '}';
	return at;
}

/*
 * From the launch to the beginning of what it launched; or from the beginning of asynchronous work
 * to where another warp saw its end.
 */
static void write_arrow(struct chrome *chrome, const struct timeline_slice *slice)
{
	uint64_t base_ns = chrome->timeline.base_ns;
	bool is_async = slice->end_track != NULL;
	char *begin = out_room(chrome->out, 512);
	char *at = begin;

	if (!at)
		return;
	at = put_arrow_end(at, "\"s\"", slice, is_async ? slice->track : slice->launch_track,
			   (is_async ? slice->start_ns : slice->launch->start_ns) - base_ns);
	at = put_arrow_end(at, "\"f\",\"bp\":\"e\"", slice,
			   is_async ? slice->end_track : slice->track,
			   (is_async ? slice->end_ns : slice->start_ns) - base_ns);
	chrome->out->length += (size_t)(at - begin);
	chrome->out->total += (size_t)(at - begin);
}

static char *put_triple(char *at, const uint32_t triple[3])
{
	*at++ = '[';
	for (int i = 0; i < 3; i++) {
		at = put_u64(at, triple[i]);
		*at++ = i < 2 ? ',' : ']';
	}
	return at;
}

/* Where and how it ran: numbers of the device, the stream, the launch. */
static void write_device_args(struct chrome *chrome, const struct timeline_slice *slice)
{
	const struct profile_trace *trace = chrome->timeline.trace;
	const struct row_event *event = slice->event;
	const struct row_lane *lane = &trace->lanes[slice->track->lane];
	const struct launch_config *config;
	char *begin = out_room(chrome->out, 512);
	char *at = begin;

	if (!at)
		return;
	if (lane->device < trace->device_count && trace->devices[lane->device]) {
		at = PUT(at, ",\"device\":");
		at = put_u64(at, chrome->profile->devices[trace->devices[lane->device] - 1].id);
	}
	at = PUT(at, ",\"stream\":");
	at = put_u64(at, lane->id);
	if (slice->launch) {
		at = PUT(at, ",\"correlation\":");
		at = put_u64(at, slice->launch->detail);
	}
	if (event->kind != EVENT_KERNEL) {
		at = PUT(at, ",\"bytes\":");
		at = put_u64(at, event->detail);
	} else if (event->detail && event->detail < trace->launch_count) {
		config = &trace->launches[event->detail].config;
		at = PUT(at, ",\"grid\":");
		at = put_triple(at, config->grid);
		at = PUT(at, ",\"block\":");
		at = put_triple(at, config->block);
		at = PUT(at, ",\"registers_per_thread\":");
		at = put_u64(at, config->registers_per_thread);
		at = PUT(at, ",\"shared_memory\":");
		at = put_u64(at,
			     (uint64_t)config->static_shared_bytes + config->dynamic_shared_bytes);
	}
	chrome->out->length += (size_t)(at - begin);
	chrome->out->total += (size_t)(at - begin);
}

static const char *category_of(const struct timeline_slice *slice)
{
	static const char *const categories[] = {
		[EVENT_SCOPE] = "scope",     [EVENT_LAUNCH] = "launch", [EVENT_KERNEL] = "kernel",
		[EVENT_COPY] = "copy",       [EVENT_SET] = "set",       [EVENT_UNIT] = "warp",
		[EVENT_SECTION] = "section",
	};

	return slice->event ? categories[slice->event->kind] : "scope";
}

/* Values of a scope's numbers, as a line that the viewer draws. */
static void write_counters(struct chrome *chrome, const struct timeline_slice *slice,
			   uint32_t first)
{
	const struct profile_metric *metric;
	const struct row_sample *sample;
	uint32_t last = UINT32_MAX;

	for (uint32_t at = first; at < last; last = at, at = sample->next) {
		char time[48];
		char *end;

		sample = timeline_sample(&chrome->timeline, at, &metric);
		if (!sample)
			break;
		if (metric->type != PROTON_METRIC_INT64 && metric->type != PROTON_METRIC_DOUBLE)
			continue;
		out_text(chrome->out, ",\n{\"ph\":\"C\",\"pid\":0,\"name\":");
		write_metric_name(chrome, metric);
		out_text(chrome->out, ",\"ts\":");
		end = put_us(time, slice->start_ns - chrome->timeline.base_ns);
		out_bytes(chrome->out, time, (size_t)(end - time));
		out_text(chrome->out, ",\"args\":{\"value\":");
		write_value(chrome, metric, sample);
		out_text(chrome->out, "}}");
	}
}

/* "name" of a node as JSON, made once. */
static const char *name_of(struct chrome *chrome, uint32_t node)
{
	struct out made;
	size_t length;

	if (chrome->names[node])
		return chrome->names[node];
	out_init(&made, -1);
	quote_frame(chrome->profile, &made, chrome->profile->nodes[node].frame);
	chrome->names[node] = out_take(&made, &length);
	out_fini(&made);
	if (!chrome->names[node])
		chrome->failed = true;
	return chrome->names[node] ? chrome->names[node] : "\"\"";
}

/*
 * What happened inside kernels: there may be a million of these, so they say no more than what and
 * when. The arguments that the first Proton gives each slice are those of its warp's own slice.
 */
static void write_inner_slice(struct chrome *chrome, const struct timeline_slice *slice)
{
	const struct row_event *event = slice->event;
	const char *name = name_of(chrome, slice->node);
	char head[128];
	char *at = PUT(head, "{\"ph\":\"X\",\"pid\":");

	if (event->kind == EVENT_SECTION && chrome->has_events)
		out_byte(chrome->out, ','); /* a line for each warp: a byte less per slice */
	else
		begin_event(chrome);
	at = put_u64(at, slice->track->pid);
	at = PUT(at, ",\"tid\":");
	at = put_u64(at, slice->track->tid);
	at = PUT(at, ",\"ts\":");
	at = put_us(at, slice->start_ns - chrome->timeline.base_ns);
	at = PUT(at, ",\"dur\":");
	at = put_us(at, slice->end_ns - slice->start_ns);
	if (event->flags & EVENT_ASYNC && event->kind == EVENT_SECTION)
		at = PUT(at, ",\"cat\":\"async\"");
	*at++ = ',';
	out_bytes(chrome->out, head, (size_t)(at - head));
	if (event->kind == EVENT_SECTION) {
		out_text(chrome->out, "\"name\":");
		out_text(chrome->out, name);
		if (event->flags & EVENT_PARTIAL)
			out_text(chrome->out, ",\"args\":{\"partial\":true}");
		out_byte(chrome->out, '}');
		if (slice->end_track)
			write_arrow(chrome, slice);
		return;
	}
	out_text(chrome->out, "\"cat\":");
	out_text(chrome->out, name);
	out_byte(chrome->out, ',');
	write_node(chrome, slice->node, "ROOT");
	out_printf(chrome->out,
		   ",\"Init Time (ns)\":%" PRIu64 ",\"Post Final Time (ns)\":%" PRIu64
		   ",\"Finalization Time (ns)\":%u,\"Frequency (MHz)\":%u}}",
		   event->start_ns, event->end_ns + event->detail, event->detail, event->flags);
}

static void write_slice(void *context, const struct timeline_slice *slice)
{
	struct chrome *chrome = context;
	const char *category = category_of(slice);
	bool is_launch = slice->event && slice->event->kind == EVENT_LAUNCH;
	bool is_plain_launch = is_launch && !(slice->event->flags & EVENT_NAMED);
	uint32_t samples = timeline_samples(&chrome->timeline, slice);
	char *begin;
	char *at;

	if (slice->track->kind == TRACK_UNIT) {
		write_inner_slice(chrome, slice);
		return;
	}
	begin_event(chrome);
	begin = out_room(chrome->out, 256);
	if (!begin)
		return;
	at = PUT(begin, "{\"ph\":\"X\",\"pid\":0,\"tid\":");
	at = put_u64(at, slice->track->tid);
	at = PUT(at, ",\"ts\":");
	at = put_us(at, slice->start_ns - chrome->timeline.base_ns);
	at = PUT(at, ",\"dur\":");
	at = put_us(at, slice->end_ns - slice->start_ns);
	at = PUT(at, ",\"cat\":\"");
	at = put_text(at, category, strlen(category));
	at = PUT(at, "\",");
	chrome->out->length += (size_t)(at - begin);
	chrome->out->total += (size_t)(at - begin);
	if (is_plain_launch) {
		/* It has no frame of its own: its node is the context that it happened in. */
		out_printf(chrome->out, "\"name\":\"%s\",\"args\":{\"correlation\":",
			   timeline_launch_name(slice->event->flags));
		out_u64(chrome->out, slice->event->detail);
	} else {
		write_node(chrome, slice->node, "ROOT");
		if (is_launch && slice->event->detail) {
			out_text(chrome->out, ",\"correlation\":");
			out_u64(chrome->out, slice->event->detail);
		}
	}
	if (slice->event && slice->track->kind == TRACK_STREAM)
		write_device_args(chrome, slice);
	if (slice->is_unfinished)
		out_text(chrome->out, ",\"unfinished\":true");
	if (samples)
		write_metrics(chrome, samples);
	out_bytes(chrome->out, "}}", 2);
	if (slice->has_arrow)
		write_arrow(chrome, slice);
	if (samples && slice->event && slice->event->kind == EVENT_SCOPE)
		write_counters(chrome, slice, samples);
}

static void ignore_track_end(void *context, const struct timeline_track *track)
{
	(void)context;
	(void)track;
}

/* ------------------------------------------------------------------ the whole */

/* What was recorded where, and what got lost. */
static void write_head(struct chrome *chrome)
{
	const struct profile *profile = chrome->profile;
	struct json_writer json;

	json_writer_init(&json, chrome->out, false);
	json_begin_object(&json);
	if (chrome->timeline.base_ns) {
		json_key(&json, "baseTimeNanoseconds");
		json_uint64(&json, chrome->timeline.base_ns);
	}
	json_key(&json, "displayTimeUnit");
	json_string(&json, "us", 2);
	json_key(&json, "otherData");
	json_begin_object(&json);
	for (size_t i = 0; i < profile->info_count; i++) {
		const struct profile_pair *pair = &profile->info[i];

		json_key(&json, profile_text(profile, pair->key));
		json_string(&json, profile_text(profile, pair->value),
			    string_length(&profile->strings, pair->value));
	}
	json_key(&json, "pid");
	json_uint64(&json, profile->pid);
	for (size_t i = 0; i < profile->counter_count; i++) {
		const struct profile_counter *counter = &profile->counters[i];

		if (!counter->is_loss || !counter->value)
			continue;
		json_key(&json, profile_text(profile, counter->name));
		json_uint64(&json, counter->value);
	}
	json_end_object(&json);
	out_text(chrome->out, ",\"traceEvents\":[\n");
	if (!chrome->timeline.count)
		return;
	begin_event(chrome);
	out_text(chrome->out, "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":0,\"tid\":0,"
			      "\"args\":{\"name\":\"Trace\"}},\n"
			      "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"tid\":0,"
			      "\"args\":{\"sort_index\":0}}");
}

int export_chrome_trace(const struct profile *profile, struct out *out, struct proton_error *err)
{
	struct chrome chrome = {.out = out, .profile = profile};
	const struct timeline_sink sink = {
		.context = &chrome,
		.track = write_track,
		.slice = write_slice,
		.track_end = ignore_track_end,
	};
	int status;

	if (!profile->trace)
		return err_set(err, PROTON_E_INVALID,
			       "the profile has no events: record it with data=\"trace\"");
	status = timeline_init(&chrome.timeline, profile, err);
	if (status != PROTON_OK)
		return status;
	chrome.kept = calloc(profile->node_count, sizeof(*chrome.kept));
	chrome.kept_length = calloc(profile->node_count, sizeof(*chrome.kept_length));
	chrome.names = calloc(profile->node_count, sizeof(*chrome.names));
	if (chrome.kept && chrome.kept_length && chrome.names) {
		write_head(&chrome);
		status = timeline_walk(&chrome.timeline, &sink, err);
		out_text(out, "\n]}\n");
	} else {
		chrome.failed = true;
	}
	if (status == PROTON_OK && chrome.failed)
		status = err_set(err, PROTON_E_NOMEM, "out of memory");
	for (size_t i = 0; chrome.kept && i < profile->node_count; i++)
		free(chrome.kept[i]);
	for (size_t i = 0; chrome.names && i < profile->node_count; i++)
		free(chrome.names[i]);
	free(chrome.names);
	free(chrome.kept);
	free(chrome.kept_length);
	timeline_fini(&chrome.timeline);
	return status;
}
