/*
 * Perfetto trace format (protocol buffers) for ui.perfetto.dev and trace_processor; field numbers
 * are in perfetto_fields.h.
 *
 * The start and the end of a slice are separate packets. Readers sort packets by time and keep file
 * order for equal times, so on each track an enclosing slice starts first and ends last. Names and
 * call stacks are written once and referenced by number (interned). Packets are compressed in
 * groups: slices repeat each other, except for their times. A slice takes 10 to 20 bytes.
 */

#include "base/array.h"
#include "base/buf.h"
#include "export/export.h"
#include "export/perfetto_fields.h"
#include "export/timeline.h"
#include "format/gzip_write.h"
#include "format/protobuf_write.h"

/* Arguments of slices; their numbers are these + 1, followed by those of metrics. */
static const char *const arguments[] = {
	"call_stack", "correlation", "device",  "stream",    "grid.x",      "grid.y",
	"grid.z",     "block.x",     "block.y", "block.z",   "registers",   "shared_memory",
	"unfinished", "bytes",       "cycles",  "clock_mhz", "finalize_ns", "partial",
};

enum argument {
	ARG_CALL_STACK = 1,
	ARG_CORRELATION,
	ARG_DEVICE,
	ARG_STREAM,
	ARG_GRID,
	ARG_BLOCK = ARG_GRID + 3,
	ARG_REGISTERS = ARG_BLOCK + 3,
	ARG_SHARED_MEMORY,
	ARG_UNFINISHED,
	ARG_BYTES,
	ARG_CYCLES,
	ARG_CLOCK_MHZ,
	ARG_FINALIZE_NS,
	ARG_PARTIAL,
	ARG_METRICS /* + the metric's index */
};

/* Track numbers in a process: itself, threads and streams, counters. */
#define UUID_PROCESS 1u
#define UUID_LOSSES 2u
#define UUID_TRACKS 16u
#define UUID_COUNTERS (1ull << 32)
#define UUID_GROUPS (1ull << 40) /* CTAs of instrumented kernels */
#define UUID_UNITS (1ull << 41)  /* their warps: by CTA and track */
#define UUID_PER_PROCESS (1ull << 48)
#define GROUP_BYTES ((size_t)512 * 1024) /* of packets that are compressed together */
#define VECTOR_MAX 4096u                 /* maximum number of written elements of a vector */
#define CALL_STACK_BYTES_MAX 65536u

/* A flow (arrow) to the warp that waited for the end of another warp's asynchronous work. */
struct arrow {
	uint64_t end_ns;
	uint64_t track; /* uuid */
	uint32_t frame;
	uint32_t row;
};

struct perfetto {
	const struct trace_part *part;
	struct out *file;
	struct out packets; /* to be compressed */
	uint64_t given;     /* bytes of earlier packets */
	struct protobuf_writer writer;
	struct timeline timeline;
	const struct profile *profile;
	uint64_t *known_frames; /* bits: frames with a name already written */
	uint64_t *known_stacks; /* by node */
	uint64_t *known_counters;
	uint64_t *ends_ns; /* of the open slices of the current track */
	size_t open_count;
	/* Flows of the current CTA: their target tracks may follow later. */
	struct arrow *arrows;
	size_t arrow_count;
	struct out text;
};

/* Sets bit `index`; false if it was set. */
static bool is_new(uint64_t *bits, uint64_t index)
{
	uint64_t bit = 1ull << index % 64;

	if (bits[index / 64] & bit)
		return false;
	bits[index / 64] |= bit;
	return true;
}

static size_t frame_text(const struct profile *profile, uint32_t frame, char *text, size_t capacity)
{
	size_t length = profile_frame_text(profile, frame, text, capacity);

	return length < capacity ? length : capacity - 1;
}

static void put_interned(struct perfetto *p, uint32_t field, uint64_t id, const char *text,
			 size_t length)
{
	protobuf_begin(&p->writer, field);
	protobuf_uint64(&p->writer, INTERNED_ID, id);
	protobuf_text(&p->writer, INTERNED_TEXT, text, length);
	protobuf_end(&p->writer);
}

static uint64_t sequence_of(const struct perfetto *p)
{
	return (uint64_t)p->part->number + 1;
}

static uint64_t time_of(const struct perfetto *p, uint64_t timestamp_ns)
{
	return timestamp_ns + (uint64_t)p->part->shift_ns;
}

/* A number that no track or flow of another process has. */
static uint64_t unique(const struct perfetto *p, uint64_t number)
{
	return number + p->part->number * UUID_PER_PROCESS;
}

static void begin_packet(struct perfetto *p, uint64_t timestamp_ns)
{
	protobuf_begin(&p->writer, TRACE_PACKET);
	protobuf_uint64(&p->writer, PACKET_TIMESTAMP, time_of(p, timestamp_ns));
	protobuf_uint64(&p->writer, PACKET_SEQUENCE, sequence_of(p));
	protobuf_uint64(&p->writer, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_NAMES);
}

static void begin_track(struct perfetto *p, uint64_t timestamp_ns, uint64_t uuid, uint64_t parent)
{
	begin_packet(p, timestamp_ns);
	protobuf_begin(&p->writer, PACKET_TRACK_DESCRIPTOR);
	protobuf_uint64(&p->writer, TRACK_UUID, unique(p, uuid));
	protobuf_uint64(&p->writer, TRACK_PARENT, unique(p, parent));
}

/* Ends a packet and its only field that is a message. */
static void end_packet(struct perfetto *p)
{
	protobuf_end(&p->writer);
	protobuf_end(&p->writer);
}

/* Writes the packets as one that contains them, if they are more than `min` bytes. */
static void compress_packets(struct perfetto *p, size_t min)
{
	AT_END(out_fini) struct out zlib = OUT_IN_MEMORY;

	out_fail(p->file, p->packets.errnum);
	if (p->packets.length <= min)
		return;
	/* The limit is for the packets: a reader needs memory for them. */
	p->given += p->packets.length;
	if (p->file->limit && p->file->total + p->given > p->file->limit && !p->file->errnum) {
		p->file->total += p->given;
		p->file->errnum = EFBIG;
	}
	zlib_write(&zlib, p->packets.bytes, p->packets.length);
	p->packets.length = 0;
	protobuf_begin(&p->writer, TRACE_PACKET);
	protobuf_bytes(&p->writer, PACKET_COMPRESSED, zlib.bytes, zlib.length);
	protobuf_end(&p->writer);
	out_fail(p->file, zlib.errnum ? zlib.errnum : p->packets.errnum);
	out_bytes(p->file, p->packets.bytes, p->packets.length);
	p->packets.length = 0;
}

/* ------------------------------------------------------------------ names */

/* "ROOT / a / b": the parents of the node, root first. */
static void put_call_stack(struct perfetto *p, uint32_t node)
{
	const struct profile *profile = p->profile;
	uint32_t path[512];
	uint32_t depth = 0;
	char text[1024];

	for (uint32_t at = node; at && depth < ARRAY_LENGTH(path); at = profile->nodes[at].parent)
		path[depth++] = at;
	p->text.length = 0;
	out_text(&p->text, "ROOT");
	while (depth && p->text.length < CALL_STACK_BYTES_MAX) {
		size_t length = frame_text(profile, profile->nodes[path[--depth]].frame, text,
					   sizeof(text));

		out_text(&p->text, " / ");
		out_bytes(&p->text, text, length);
	}
	put_interned(p, INTERNED_ANNOTATION_STRING, (uint64_t)node + 1, p->text.bytes,
		     p->text.length);
}

/* Writes the names that the slice refers to, if they are new. */
static void write_names(struct perfetto *p, const struct timeline_slice *slice)
{
	const struct profile *profile = p->profile;
	uint32_t parent = profile->nodes[slice->node].parent;
	uint32_t frame = profile->nodes[slice->node].frame;
	bool wants_name = is_new(p->known_frames, frame);
	bool wants_stack = is_new(p->known_stacks, parent);
	char text[1024];

	if (!wants_name && !wants_stack)
		return;
	begin_packet(p, slice->start_ns);
	protobuf_begin(&p->writer, PACKET_INTERNED);
	if (wants_name)
		put_interned(p, INTERNED_EVENT_NAME, (uint64_t)frame + 1, text,
			     frame_text(profile, frame, text, sizeof(text)));
	if (wants_stack)
		put_call_stack(p, parent);
	end_packet(p);
}

/* ------------------------------------------------------------------ slices, by hand */

/*
 * There may be millions of slices, so their common parts are written here instead of with
 * format/protobuf_write.c. Field numbers below 16 take one byte including the wire type.
 */
#define VARINT(field) ((field) << 3)
#define LENGTH(field) ((field) << 3 | 2)
#define SLICE_BYTES_MAX 512u

static char *put_varint(char *at, uint64_t value)
{
	while (value >= 0x80) {
		*at++ = (char)(value | 0x80);
		value >>= 7;
	}
	*at++ = (char)value;
	return at;
}

static char *put_field(char *at, uint32_t field, uint64_t value)
{
	at = put_varint(at, VARINT(field));
	return put_varint(at, value);
}

/* A flow number as an 8-byte fixed64. */
static char *put_flow(char *at, uint32_t field, uint64_t flow)
{
	at = put_varint(at, field << 3 | 1);
	memcpy(at, &flow, sizeof(flow)); /* little-endian, see format/rows.h */
	return at + sizeof(flow);
}

/* An argument; `field` tells the type of its value. */
static char *put_argument(char *at, enum argument name, uint32_t field, uint64_t value)
{
	*at++ = LENGTH(EVENT_ANNOTATION);
	char *length = at++;
	at = put_field(at, ANNOTATION_NAME_ID, name);
	at = put_field(at, field, value);
	*length = (char)(at - length - 1);
	return at;
}

static char *put_number(char *at, enum argument name, uint64_t value)
{
	return put_argument(at, name, ANNOTATION_UINT, value);
}

static void begin_event(struct perfetto *p, uint64_t timestamp_ns, uint64_t type, uint64_t track)
{
	begin_packet(p, timestamp_ns);
	protobuf_begin(&p->writer, PACKET_TRACK_EVENT);
	protobuf_uint64(&p->writer, EVENT_TYPE, type);
	protobuf_uint64(&p->writer, EVENT_TRACK, unique(p, track));
}

/* A packet with one event of the given content. */
static void write_event(struct perfetto *p, uint64_t timestamp_ns, const char *event, size_t length)
{
	char head[32];
	char *at = put_field(head, PACKET_TIMESTAMP, time_of(p, timestamp_ns));
	struct out *out = p->writer.out;
	char *space = out_reserve(out, SLICE_BYTES_MAX + 64);

	if (!space)
		return;
	at = put_field(at, PACKET_SEQUENCE, sequence_of(p));
	at = put_field(at, PACKET_SEQUENCE_FLAGS, SEQUENCE_NEEDS_NAMES);
	*at++ = LENGTH(PACKET_TRACK_EVENT);
	at = put_varint(at, length);
	*space++ = LENGTH(TRACE_PACKET);
	space = put_varint(space, (uint64_t)(at - head) + length);
	memcpy(space, head, (size_t)(at - head));
	space += at - head;
	memcpy(space, event, length);
	out_commit(out, space + length);
}

/* ------------------------------------------------------------------ arguments */

static void put_vector(struct perfetto *p, const struct row_sample *sample, bool is_double)
{
	uint64_t count;
	const uint64_t *words = timeline_vector(&p->timeline, sample, &count);

	for (uint64_t i = 0; i < count && i < VECTOR_MAX; i++) {
		protobuf_begin(&p->writer, ANNOTATION_ARRAY);
		if (is_double)
			protobuf_double(&p->writer, ANNOTATION_DOUBLE, double_of_bits(words[i]));
		else
			protobuf_int64(&p->writer, ANNOTATION_INT, (int64_t)words[i]);
		protobuf_end(&p->writer);
	}
}

static void put_metric(struct perfetto *p, const struct row_metric *metric,
		       const struct row_sample *sample)
{
	uint64_t index = (uint64_t)(metric - p->profile->metrics);
	uint32_t string;

	protobuf_begin(&p->writer, EVENT_ANNOTATION);
	protobuf_uint64(&p->writer, ANNOTATION_NAME_ID, ARG_METRICS + index);
	switch (metric->type) {
	case PROTON_METRIC_INT64:
		protobuf_int64(&p->writer, ANNOTATION_INT, sample->as.int64);
		break;
	case PROTON_METRIC_DOUBLE:
		protobuf_double(&p->writer, ANNOTATION_DOUBLE, sample->as.float64);
		break;
	case PROTON_METRIC_STRING:
		string = timeline_string(&p->timeline, sample);
		protobuf_text(&p->writer, ANNOTATION_STRING, profile_text(p->profile, string),
			      string_length(&p->profile->strings, string));
		break;
	default:
		put_vector(p, sample, metric->type == PROTON_METRIC_DOUBLE_VECTOR);
		break;
	}
	protobuf_end(&p->writer);
}

/* Device and launch arguments. */
static char *put_device(const struct perfetto *p, const struct timeline_slice *slice, char *at)
{
	const struct profile_trace *trace = p->timeline.trace;
	const struct row_lane *lane = &trace->lanes[slice->track->lane];
	uint32_t device = timeline_device(&p->timeline, slice->track->lane);

	if (device != UINT32_MAX)
		at = put_number(at, ARG_DEVICE, device);
	at = put_number(at, ARG_STREAM, lane->id);
	if (slice->launch)
		at = put_number(at, ARG_CORRELATION, slice->launch->detail);
	if (slice->event->kind != EVENT_KERNEL)
		return put_number(at, ARG_BYTES, trace_bytes(trace, slice->event));
	if (!slice->event->detail || slice->event->detail >= trace->launch_count)
		return at;
	const struct launch_config *config = &trace->launches[slice->event->detail].config;
	for (int i = 0; i < 3; i++)
		at = put_number(at, (enum argument)(ARG_GRID + i), config->grid[i]);
	for (int i = 0; i < 3; i++)
		at = put_number(at, (enum argument)(ARG_BLOCK + i), config->block[i]);
	at = put_number(at, ARG_REGISTERS, config->registers_per_thread);
	return put_number(at, ARG_SHARED_MEMORY, shared_bytes_of(config));
}

/* All arguments except metrics: at most 15 of at most 20 bytes. */
static char *put_arguments(const struct perfetto *p, const struct timeline_slice *slice,
			   bool has_frame, char *at)
{
	const struct row_event *event = slice->event;

	/* Intra-kernel slices get it from the warp's own slice, which encloses them. */
	if (has_frame && !(event && event->kind == EVENT_SECTION))
		at = put_argument(at, ARG_CALL_STACK, ANNOTATION_STRING_ID,
				  (uint64_t)p->profile->nodes[slice->node].parent + 1);
	if (event && event->kind == EVENT_LAUNCH && event->detail)
		at = put_number(at, ARG_CORRELATION, event->detail);
	if (event && slice->track->kind == TRACK_STREAM)
		at = put_device(p, slice, at);
	if (event && event->kind == EVENT_SECTION)
		at = put_number(at, ARG_CYCLES, event->detail);
	if (event && event->kind == EVENT_UNIT) {
		at = put_number(at, ARG_CLOCK_MHZ, event->flags);
		at = put_number(at, ARG_FINALIZE_NS, event->detail);
	}
	if (event && event->kind == EVENT_SECTION && event->flags & EVENT_PARTIAL)
		at = put_argument(at, ARG_PARTIAL, ANNOTATION_BOOL, 1);
	if (slice->is_unfinished)
		at = put_argument(at, ARG_UNFINISHED, ANNOTATION_BOOL, 1);
	return at;
}

/* ------------------------------------------------------------------ tracks and slices */

static uint64_t uuid_of(const struct timeline_track *track)
{
	if (track->kind == TRACK_UNIT)
		return UUID_UNITS + ((uint64_t)track->pid << 16) + track->tid;
	return (uint64_t)track->tid + UUID_TRACKS;
}

/* Processes of several hosts may have the same number: then those are the numbers of the parts. */
static uint32_t pid_of(const struct perfetto *p)
{
	return p->part->count == 1 && p->profile->pid ? p->profile->pid : p->part->number + 1;
}

/* The parent track of a CTA's tracks. */
static void write_group(struct perfetto *p, const struct timeline_track *track)
{
	char name[512];
	size_t length = timeline_group_name(&p->timeline, track, name, sizeof(name));

	begin_track(p, p->timeline.base_ns, UUID_GROUPS + track->pid, UUID_PROCESS);
	protobuf_text(&p->writer, TRACK_NAME, name, length);
	protobuf_uint64(&p->writer, TRACK_SIBLING_RANK, track->order);
	protobuf_uint64(&p->writer, TRACK_CHILD_ORDERING, CHILD_ORDERING_EXPLICIT);
	end_packet(p);
}

static void keep_arrow(struct perfetto *p, const struct timeline_slice *slice)
{
	struct arrow arrow = {
		.end_ns = slice->end_ns,
		.track = uuid_of(slice->end_track),
		.frame = p->profile->nodes[slice->node].frame,
		.row = slice->row,
	};

	if (!ARRAY_ADD(p->arrows, p->arrow_count, arrow))
		out_fail(p->file, ENOMEM);
}

/* After all tracks of a CTA are described: writes the targets of its flows, as instants. */
static void write_arrows(struct perfetto *p)
{
	for (size_t i = 0; i < p->arrow_count; i++) {
		const struct arrow *arrow = &p->arrows[i];

		begin_event(p, arrow->end_ns, TYPE_INSTANT, arrow->track);
		protobuf_uint64(&p->writer, EVENT_NAME_ID, (uint64_t)arrow->frame + 1);
		protobuf_uint64(&p->writer, EVENT_CATEGORY_ID, EVENT_SECTION);
		protobuf_fixed64(&p->writer, EVENT_FLOW_END, unique(p, arrow->row));
		end_packet(p);
	}
	p->arrow_count = 0;
}

static void write_track(void *context, const struct timeline_track *track)
{
	struct perfetto *p = context;
	char name[128];
	size_t length = timeline_track_name(&p->timeline, track, name, sizeof(name));

	compress_packets(p, GROUP_BYTES);
	if (track->is_first_of_pid) {
		write_arrows(p);
		write_group(p, track);
	}
	if (track->is_again)
		return;
	begin_track(p, p->timeline.base_ns, uuid_of(track),
		    track->pid ? UUID_GROUPS + track->pid : UUID_PROCESS);
	protobuf_bytes(&p->writer, TRACK_NAME, name, length);
	protobuf_uint64(&p->writer, TRACK_SIBLING_RANK, track->order);
	if (track->kind == TRACK_THREAD) {
		uint64_t tid = p->timeline.trace->lanes[track->lane].id;

		protobuf_begin(&p->writer, TRACK_THREAD_DESCRIPTOR);
		protobuf_uint64(&p->writer, THREAD_PID, pid_of(p));
		protobuf_uint64(&p->writer, THREAD_TID, tid & INT32_MAX);
		protobuf_bytes(&p->writer, THREAD_NAME, name, length);
		protobuf_end(&p->writer);
	}
	end_packet(p);
}

static void write_end(struct perfetto *p, const struct timeline_track *track, uint64_t end_ns)
{
	char event[32];
	char *at = put_field(event, EVENT_TYPE, TYPE_END);

	at = put_field(at, EVENT_TRACK, unique(p, uuid_of(track)));
	write_event(p, end_ns, event, (size_t)(at - event));
}

static void close_until(struct perfetto *p, const struct timeline_track *track, uint64_t now_ns)
{
	while (p->open_count && p->ends_ns[p->open_count - 1] <= now_ns)
		write_end(p, track, p->ends_ns[--p->open_count]);
}

/* Numeric values of a scope, on their own counter tracks. */
static void write_counters(struct perfetto *p, const struct timeline_slice *slice)
{
	const struct row_metric *metric;
	struct row_sample sample;
	uint32_t at = timeline_samples(&p->timeline, slice);

	while (timeline_take_sample(&p->timeline, &at, &metric, &sample)) {
		if (!profile_is_number(metric->type))
			continue;
		uint64_t index = (uint64_t)(metric - p->profile->metrics);
		if (is_new(p->known_counters, index)) {
			begin_track(p, slice->start_ns, UUID_COUNTERS + index, UUID_PROCESS);
			protobuf_text(&p->writer, TRACK_NAME,
				      profile_text(p->profile, metric->name),
				      string_length(&p->profile->strings, metric->name));
			protobuf_bytes(&p->writer, TRACK_COUNTER, "", 0);
			end_packet(p);
		}
		begin_event(p, slice->start_ns, TYPE_COUNTER, UUID_COUNTERS + index);
		if (metric->type == PROTON_METRIC_INT64)
			protobuf_int64(&p->writer, EVENT_COUNTER_INT, sample.as.int64);
		else
			protobuf_double(&p->writer, EVENT_COUNTER_DOUBLE, sample.as.float64);
		end_packet(p);
	}
}

static void write_slice(void *context, const struct timeline_slice *slice)
{
	struct perfetto *p = context;
	const struct row_event *event = slice->event;
	bool is_launch = event && event->kind == EVENT_LAUNCH;
	bool has_frame = !is_launch || event->flags & EVENT_NAMED;
	uint64_t name = has_frame ? (uint64_t)p->profile->nodes[slice->node].frame + 1
				  : p->profile->frame_count + 1;
	uint32_t samples = timeline_samples(&p->timeline, slice);
	const struct row_metric *metric;
	struct row_sample sample;
	uint32_t row = samples;
	char body[SLICE_BYTES_MAX];
	char *at = body;

	compress_packets(p, GROUP_BYTES);
	if (is_launch && !has_frame)
		name += event->flags & (EVENT_OF_GRAPH | EVENT_OF_MEMORY);
	close_until(p, slice->track, slice->start_ns);
	if (has_frame)
		write_names(p, slice);
	at = put_field(at, EVENT_TYPE, TYPE_BEGIN);
	at = put_field(at, EVENT_TRACK, unique(p, uuid_of(slice->track)));
	at = put_field(at, EVENT_NAME_ID, name);
	at = put_field(at, EVENT_CATEGORY_ID, event ? event->kind : EVENT_SCOPE);
	if (is_launch || slice->end_track)
		at = put_flow(at, EVENT_FLOW, unique(p, slice->row));
	else if (slice->has_arrow)
		at = put_flow(at, EVENT_FLOW, unique(p, slice->launch_row));
	if (slice->is_forward)
		at = put_flow(at, EVENT_FLOW, unique(p, slice->row));
	else if (slice->forward)
		at = put_flow(at, EVENT_FLOW, unique(p, slice->forward_row));
	at = put_arguments(p, slice, has_frame, at);
	if (samples) {
		begin_packet(p, slice->start_ns);
		protobuf_begin(&p->writer, PACKET_TRACK_EVENT);
		out_bytes(&p->packets, body, (size_t)(at - body));
		while (timeline_take_sample(&p->timeline, &row, &metric, &sample))
			put_metric(p, metric, &sample);
		end_packet(p);
	} else {
		write_event(p, slice->start_ns, body, (size_t)(at - body));
	}
	if (slice->track->kind == TRACK_STREAM) { /* slices of streams do not nest */
		write_end(p, slice->track, slice->end_ns);
	} else if (!ARRAY_ADD(p->ends_ns, p->open_count, slice->end_ns)) {
		out_fail(p->file, ENOMEM);
	}
	if (slice->end_track)
		keep_arrow(p, slice);
	if (samples && event && event->kind == EVENT_SCOPE)
		write_counters(p, slice);
}

static void end_track(void *context, const struct timeline_track *track)
{
	close_until(context, track, UINT64_MAX);
}

/* ------------------------------------------------------------------ the whole */

static void put_clock(struct perfetto *p, uint32_t id)
{
	protobuf_begin(&p->writer, SNAPSHOT_CLOCK);
	protobuf_uint64(&p->writer, CLOCK_ID, id);
	protobuf_uint64(&p->writer, CLOCK_TIMESTAMP, time_of(p, p->timeline.base_ns));
	protobuf_end(&p->writer);
}

/* Names that every trace has: categories, arguments, launches without a frame. */
static void put_fixed_names(struct perfetto *p)
{
	const struct profile *profile = p->profile;

	protobuf_begin(&p->writer, PACKET_INTERNED);
	for (size_t i = EVENT_SCOPE; i < ARRAY_LENGTH(timeline_categories); i++)
		put_interned(p, INTERNED_CATEGORY, i, timeline_categories[i],
			     strlen(timeline_categories[i]));
	for (size_t i = 0; i < ARRAY_LENGTH(arguments); i++)
		put_interned(p, INTERNED_ANNOTATION_NAME, i + 1, arguments[i],
			     strlen(arguments[i]));
	for (size_t i = 0; i < profile->metric_count; i++) {
		p->text.length = 0;
		out_text(&p->text, "metrics.");
		out_bytes(&p->text, profile_text(profile, profile->metrics[i].name),
			  string_length(&profile->strings, profile->metrics[i].name));
		put_interned(p, INTERNED_ANNOTATION_NAME, ARG_METRICS + i, p->text.bytes,
			     p->text.length);
	}
	for (uint32_t flags = 0; flags <= (EVENT_OF_GRAPH | EVENT_OF_MEMORY); flags++) {
		const char *name = timeline_launch_name((uint16_t)flags);

		put_interned(p, INTERNED_EVENT_NAME, profile->frame_count + 1 + flags, name,
			     strlen(name));
	}
	protobuf_end(&p->writer);
}

static void write_head(struct perfetto *p)
{
	const char *name = p->part->name;

	protobuf_begin(&p->writer, TRACE_PACKET);
	protobuf_uint64(&p->writer, PACKET_SEQUENCE, sequence_of(p));
	protobuf_uint64(&p->writer, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
	protobuf_begin(&p->writer, PACKET_CLOCK_SNAPSHOT);
	put_clock(p, CLOCK_BOOT);
	put_clock(p, CLOCK_REAL);
	protobuf_end(&p->writer);
	put_fixed_names(p);
	protobuf_end(&p->writer);

	begin_packet(p, p->timeline.base_ns);
	protobuf_begin(&p->writer, PACKET_TRACK_DESCRIPTOR);
	protobuf_uint64(&p->writer, TRACK_UUID, unique(p, UUID_PROCESS));
	protobuf_begin(&p->writer, TRACK_PROCESS);
	protobuf_uint64(&p->writer, PROCESS_PID, pid_of(p));
	protobuf_text(&p->writer, PROCESS_NAME, name, strlen(name));
	protobuf_end(&p->writer);
	protobuf_uint64(&p->writer, TRACK_CHILD_ORDERING, CHILD_ORDERING_EXPLICIT);
	end_packet(p);
}

/* A track at the top with an instant per cause of loss: the format has no field for losses. */
static void write_losses(struct perfetto *p)
{
	const struct profile *profile = p->profile;
	bool has_track = false;

	ARRAY_EACH(counter, profile->counters, profile->counter_count) {
		if (!counter->is_loss || !counter->value)
			continue;
		if (!has_track) {
			begin_track(p, p->timeline.base_ns, UUID_LOSSES, UUID_PROCESS);
			protobuf_text(&p->writer, TRACK_NAME, "lost", 4);
			end_packet(p);
			has_track = true;
		}
		begin_event(p, p->timeline.base_ns, TYPE_INSTANT, UUID_LOSSES);
		protobuf_text(&p->writer, EVENT_NAME, profile_text(profile, counter->name),
			      string_length(&profile->strings, counter->name));
		protobuf_begin(&p->writer, EVENT_ANNOTATION);
		protobuf_text(&p->writer, ANNOTATION_NAME, "count", 5);
		protobuf_uint64(&p->writer, ANNOTATION_UINT, counter->value);
		protobuf_end(&p->writer);
		end_packet(p);
	}
}

static uint64_t *new_bits(struct perfetto *p, uint64_t count)
{
	uint64_t *bits = calloc(count / 64 + 1, sizeof(*bits));

	out_fail(p->file, bits ? 0 : ENOMEM);
	return bits;
}

int export_perfetto_part(const struct profile *profile, const struct trace_part *part,
			 struct out *out, struct proton_error *err)
{
	struct perfetto p = {.profile = profile,
			     .part = part,
			     .file = out,
			     .packets = OUT_IN_MEMORY,
			     .text = OUT_IN_MEMORY};
	const struct timeline_sink sink = {&p, write_track, write_slice, end_track};

	TRY(timeline_init(&p.timeline, profile, err));
	p.writer.out = &p.packets;
	p.known_frames = new_bits(&p, profile->frame_count);
	p.known_stacks = new_bits(&p, profile->node_count);
	p.known_counters = new_bits(&p, profile->metric_count);
	if (!out->errnum) {
		write_head(&p);
		write_losses(&p);
		timeline_walk(&p.timeline, &sink, out);
		write_arrows(&p);
		compress_packets(&p, 0);
		out_fail(out, p.text.errnum);
	}
	out_fini(&p.packets);
	out_fini(&p.text);
	FREE_ALL(p.known_frames, p.known_stacks, p.known_counters, p.ends_ns, p.arrows);
	timeline_fini(&p.timeline);
	return PROTON_OK;
}

int export_perfetto(const struct profile *profile, struct out *out, struct proton_error *err)
{
	const char *command = profile_info_text(profile, "command");

	return export_perfetto_part(
		profile, &(struct trace_part){.count = 1, .name = *command ? command : "Trace"},
		out, err);
}
