/* Timeline: converts the events of a trace to tracks of slices. */
#include "export/timeline.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/array.h"
#include "model/trace_events.h"

/* Track numbers like upstream's: threads from 0, graphs and streams from here. */
#define TID_GRAPH 100000u
#define TID_STREAM 200000u
#define TID_PER_DEVICE 10000u
#define TID_DEVICES 10u
#define TID_OTHER 1000000u /* for others, consecutively */

#define PARTS_MAX 32u /* maximum number of tracks of one stream */
#define GRAPH_DEPTH_MAX 64u

struct walk {
	struct timeline *timeline;
	const struct timeline_sink *sink;
	uint32_t next_tid;
};

/* ------------------------------------------------------------------ order */

static uint64_t end_of(const struct timeline *timeline, const struct row_event *event)
{
	uint64_t end_ns = __atomic_load_n(&event->end_ns, __ATOMIC_RELAXED);

	if (!end_ns)
		end_ns = timeline->end_ns;
	return end_ns < event->start_ns ? event->start_ns : end_ns;
}

/* By start, then longer first, then by row: the outer event comes first. */
static bool is_before(const struct timeline *timeline, uint32_t a, uint32_t b)
{
	const struct row_event *x = &timeline->trace->events[a];
	const struct row_event *y = &timeline->trace->events[b];

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns;
	uint64_t x_end_ns = end_of(timeline, x);
	uint64_t y_end_ns = end_of(timeline, y);
	return x_end_ns != y_end_ns ? x_end_ns > y_end_ns : a < b;
}

/* Bottom-up merge sort: rows are nearly sorted, and sorted runs stay unchanged. */
static void sort_lane(const struct timeline *timeline, uint32_t *rows, uint64_t count,
		      uint32_t *scratch)
{
	for (uint64_t width = 1; width < count; width *= 2) {
		for (uint64_t low = 0; low + width < count; low += 2 * width) {
			uint64_t middle = low + width;
			uint64_t high = count - middle > width ? middle + width : count;
			uint64_t i = 0;
			uint64_t j = middle;
			uint64_t at = low;

			if (!is_before(timeline, rows[middle], rows[middle - 1]))
				continue;
			memcpy(scratch, rows + low, width * sizeof(*rows));
			while (i < width && j < high)
				rows[at++] = is_before(timeline, rows[j], scratch[i])
						     ? rows[j++]
						     : scratch[i++];
			memcpy(rows + at, scratch + i, (width - i) * sizeof(*rows));
		}
	}
}

/* Counts the events of each lane and finds the first and last timestamp. */
static void count_events(struct timeline *timeline)
{
	const struct profile_trace *trace = timeline->trace;

	for (uint64_t i = 1; i < trace->event_count; i++) {
		const struct row_event *event = trace_event(trace, i);

		if (!event)
			continue;
		timeline->first[event->lane + 1]++;
		timeline->count++;
		if (!timeline->base_ns || event->start_ns < timeline->base_ns)
			timeline->base_ns = event->start_ns;
		if (event->start_ns > timeline->end_ns)
			timeline->end_ns = event->start_ns;
		if (event->end_ns > timeline->end_ns)
			timeline->end_ns = event->end_ns;
	}
	/* Events without an end lasted until the end of the recording, if that is known. */
	if (!timeline->profile->is_unfinished && timeline->profile->end_ns > timeline->end_ns)
		timeline->end_ns = timeline->profile->end_ns;
}

static bool put_in_order(struct timeline *timeline)
{
	const struct profile_trace *trace = timeline->trace;
	uint64_t lanes = trace->lane_count;
	uint64_t largest = 0;
	uint64_t *next = malloc((lanes + 1) * sizeof(*next));

	timeline->order = malloc((timeline->count + 1) * sizeof(*timeline->order));
	if (!next || !timeline->order) {
		free(next);
		return false;
	}
	for (uint64_t lane = 0; lane < lanes; lane++) {
		if (timeline->first[lane + 1] > largest)
			largest = timeline->first[lane + 1];
		timeline->first[lane + 1] += timeline->first[lane];
	}
	memcpy(next, timeline->first, (lanes + 1) * sizeof(*next));
	for (uint64_t i = 1; i < trace->event_count; i++) {
		const struct row_event *event = trace_event(trace, i);

		/* An active session may add rows concurrently: they are ignored. */
		if (event && next[event->lane] < timeline->first[event->lane + 1])
			timeline->order[next[event->lane]++] = (uint32_t)i;
	}
	free(next);
	AUTO_FREE uint32_t *scratch = malloc((largest + 1) * sizeof(*scratch));
	if (!scratch)
		return false;
	for (uint64_t lane = 0; lane < lanes; lane++)
		sort_lane(timeline, timeline->order + timeline->first[lane],
			  timeline->first[lane + 1] - timeline->first[lane], scratch);
	return true;
}

/* ------------------------------------------------------------------ backward kernels */

/*
 * Arrows from scopes to the backward kernels of PyTorch below them, in SCOPE, <backward>
 * (docs/guide/pytorch.md), found by the order of both in time.
 *
 * A profile does not tell which run of the scope a backward kernel belongs to. It is certain if the
 * scope ran once since its previous backward kernels: then an arrow leads to the first of the
 * kernels that follow. Otherwise there is no arrow.
 */

/* A run of a scope, or a backward kernel below it. */
struct moment {
	uint64_t ns;    /* kernels: when they were launched */
	uint32_t scope; /* node of the profile */
	uint32_t row;   /* of events */
	bool is_kernel;
};

struct moments {
	struct moment *rows;
	size_t count;
};

/* Arrays by node. */
struct places {
	uint32_t *scopes; /* the scope above the innermost <backward> of the path; 0: none */
	bool *is_scope;   /* has a child <backward> */
};

/* False: out of memory. *any_out: there are backward kernels. */
static bool find_places(const struct profile *profile, struct places *places, bool *any_out)
{
	places->scopes = calloc(profile->node_count, sizeof(*places->scopes));
	places->is_scope = calloc(profile->node_count, sizeof(*places->is_scope));
	if (!places->scopes || !places->is_scope)
		return false;
	for (uint32_t node = 1; node < profile->node_count; node++) { /* parents come first */
		uint32_t parent = profile->nodes[node].parent;
		bool is_here = profile_is_scope(profile, node, "<backward>");

		places->scopes[node] = is_here ? parent : places->scopes[parent];
		places->is_scope[parent] |= is_here;
		*any_out |= is_here && parent;
	}
	return true;
}

static bool collect_moments(const struct profile_trace *trace, const struct places *places,
			    struct moments *moments)
{
	for (uint64_t row = 1; row < trace->event_count; row++) {
		const struct row_event *event = trace_event(trace, row);
		bool is_kernel = event && event->kind == EVENT_KERNEL;
		struct moment moment;

		if (!event || (!is_kernel && event->kind != EVENT_SCOPE) ||
		    event->flags & EVENT_OF_GRAPH)
			continue;
		uint32_t node = trace->nodes[event->node] - 1;
		uint32_t scope = is_kernel                ? places->scopes[node]
				 : places->is_scope[node] ? node
							  : 0;
		if (!scope)
			continue;
		const struct row_event *launch = is_kernel ? trace_event(trace, event->link) : NULL;
		moment = (struct moment){
			.ns = launch && launch->kind == EVENT_LAUNCH ? launch->start_ns
								     : event->start_ns,
			.scope = scope,
			.row = (uint32_t)row,
			.is_kernel = is_kernel,
		};
		if (!ARRAY_ADD(moments->rows, moments->count, moment))
			return false;
	}
	return true;
}

ARRAY_ORDER(compare_moments, struct moment,
	    ORDER_OF(a->scope, b->scope) ?: ORDER_OF(a->ns, b->ns) ?: ORDER_OF(a->row, b->row))

ARRAY_ORDER(compare_kernels, struct backward_arrow, ORDER_OF(a->kernel, b->kernel))

ARRAY_ORDER(compare_rows, uint32_t, ORDER_OF(*a, *b))

static bool connect_moments(struct timeline_backward *backward, const struct moments *moments)
{
	uint32_t runs = 0; /* since the last backward kernel of the scope */

	for (size_t i = 0; i < moments->count; i++) {
		const struct moment *moment = &moments->rows[i];

		if (!i || moment[-1].scope != moment->scope)
			runs = 0;
		if (!moment->is_kernel) {
			runs++;
			continue;
		}
		if (runs == 1) {
			size_t arrow_count = backward->count;

			if (!ARRAY_ADD(backward->arrows, arrow_count,
				       (struct backward_arrow){moment->row, moment[-1].row}) ||
			    !ARRAY_ADD(backward->scopes, backward->count, moment[-1].row))
				return false;
		}
		runs = 0;
	}
	ARRAY_SORT(backward->arrows, backward->count, compare_kernels);
	ARRAY_SORT(backward->scopes, backward->count, compare_rows);
	return true;
}

/* False: out of memory. */
static bool find_arrows(struct timeline_backward *backward, const struct profile *profile)
{
	struct places places = {0};
	struct moments moments = {0};
	bool is_any = false;
	bool is_done = find_places(profile, &places, &is_any);

	if (is_done && is_any) {
		is_done = collect_moments(profile->trace, &places, &moments);
		ARRAY_SORT(moments.rows, moments.count, compare_moments);
		is_done = is_done && connect_moments(backward, &moments);
	}
	FREE_ALL(places.scopes, places.is_scope, moments.rows);
	return is_done;
}

/* The scope event of the arrow to a kernel event; 0: none. */
static uint32_t forward_of(const struct timeline_backward *backward, uint32_t kernel)
{
	struct backward_arrow key = {.kernel = kernel};
	const struct backward_arrow *found = backward->count ? bsearch(&key, backward->arrows,
								       backward->count, sizeof(key),
								       compare_kernels)
							     : NULL;

	return found ? found->scope : 0;
}

/* True if an arrow begins at the scope event. */
static bool is_forward(const struct timeline_backward *backward, uint32_t scope)
{
	return backward->count &&
	       bsearch(&scope, backward->scopes, backward->count, sizeof(scope), compare_rows);
}

/* ------------------------------------------------------------------ lanes */

static uint32_t device_number(const struct timeline *timeline, const struct row_lane *lane)
{
	const struct profile_trace *trace = timeline->trace;

	if (lane->device >= trace->device_count || !trace->devices[lane->device])
		return UINT32_MAX;
	return timeline->profile->devices[trace->devices[lane->device] - 1].id;
}

uint32_t timeline_device(const struct timeline *timeline, uint32_t lane)
{
	return device_number(timeline, &timeline->trace->lanes[lane]);
}

/* Lanes of one CTA on one multiprocessor (SM): a group of tracks. */
static bool is_same_group(const struct row_lane *x, const struct row_lane *y)
{
	return y->kind == LANE_UNIT && x->device == y->device && x->name == y->name &&
	       x->id == y->id;
}

static bool is_same_unit(const struct row_lane *x, const struct row_lane *y)
{
	return is_same_group(x, y) && x->number == y->number;
}

static int compare_lanes(const void *a, const void *b, void *context)
{
	const struct timeline *timeline = context;
	const struct row_lane *x = &timeline->trace->lanes[*(const uint32_t *)a];
	const struct row_lane *y = &timeline->trace->lanes[*(const uint32_t *)b];

	if (x->kind != y->kind || x->kind == LANE_THREAD)
		return ORDER_OF(x->kind, y->kind) ?: ORDER_OF(x->number, y->number);
	if (x->device != y->device)
		return ORDER_OF(device_number(timeline, x), device_number(timeline, y))
			       ?: ORDER_OF(x->device, y->device);
	if (x->kind == LANE_UNIT && !is_same_unit(x, y)) /* CTA, then SM; warp, then sub-track */
		return ORDER_OF(x->name, y->name)
			       ?: ORDER_OF((uint32_t)x->id, (uint32_t)y->id)
			       ?: ORDER_OF(x->id, y->id)
			       ?: ORDER_OF((uint16_t)x->number, (uint16_t)y->number)
			       ?: ORDER_OF(x->number, y->number);
	/* Consecutive launches. */
	return ORDER_OF(x->id, y->id) ?: ORDER_OF(x, y);
}

/* The track number in a Chrome trace; 0 if the rule does not give a unique one. */
static uint32_t tid_of(const struct timeline *timeline, uint32_t lane, uint32_t base)
{
	const struct row_lane *row = &timeline->trace->lanes[lane];
	uint32_t device = device_number(timeline, row);

	if (row->id >= TID_PER_DEVICE || device >= TID_DEVICES)
		return 0;
	ARRAY_EACH(other, timeline->trace->lanes, lane) {
		if (other->kind == LANE_STREAM && other->id == row->id &&
		    device_number(timeline, other) == device)
			return 0;
	}
	return base + device * TID_PER_DEVICE + (uint32_t)row->id;
}

/* Numbers a unit's track after that of `before` (NULL: the first one). */
static void number_unit(struct timeline_track *track, const struct row_lane *row,
			const struct timeline_track *before, const struct row_lane *before_row)
{
	track->kind = TRACK_UNIT;
	track->pid = before ? before->pid + 1 : 1;
	track->is_first_of_pid = true;
	if (!before_row || !is_same_group(row, before_row))
		return;
	track->is_first_of_pid = false;
	track->pid = before->pid;
	track->is_again = is_same_unit(row, before_row);
	track->tid = track->is_again ? before->tid : before->tid + 1;
}

static bool sort_lanes(struct timeline *timeline)
{
	uint64_t count = timeline->trace->lane_count;
	uint32_t next_tid = TID_OTHER;

	timeline->lanes = malloc((count + 1) * sizeof(*timeline->lanes));
	timeline->tracks = calloc(count + 1, sizeof(*timeline->tracks));
	if (!timeline->lanes || !timeline->tracks)
		return false;
	for (uint32_t i = 0; i < count; i++)
		timeline->lanes[i] = i;
	qsort_r(timeline->lanes, count, sizeof(*timeline->lanes), compare_lanes, timeline);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t lane = timeline->lanes[i];
		const struct row_lane *row = &timeline->trace->lanes[lane];
		struct timeline_track *track = &timeline->tracks[lane];

		track->lane = lane;
		/* Leaves space for related tracks: graph, modules, then the stream's sub-tracks. */
		track->order = i * (PARTS_MAX + 3) + 2;
		if (row->kind == LANE_UNIT) {
			const struct row_lane *before =
				i ? &timeline->trace->lanes[timeline->lanes[i - 1]] : NULL;

			number_unit(track, row,
				    i ? &timeline->tracks[timeline->lanes[i - 1]] : NULL, before);
			continue;
		}
		track->kind = row->kind == LANE_STREAM ? TRACK_STREAM : TRACK_THREAD;
		if (track->kind == TRACK_STREAM)
			track->tid = tid_of(timeline, lane, TID_STREAM);
		else if (row->number < TID_GRAPH)
			track->tid = row->number;
		if (!track->tid && (track->kind == TRACK_STREAM || row->number))
			track->tid = next_tid++;
	}
	return true;
}

/*
 * The scopes in which graphs were captured, and the names that no thread ran as a scope: modules of
 * compiled code, and operators.
 */
static bool find_scopes(struct timeline *timeline)
{
	const struct profile *profile = timeline->profile;
	const struct profile_trace *trace = timeline->trace;
	uint32_t *scopes = calloc(profile->node_count, sizeof(*scopes));
	AUTO_FREE bool *is_run = calloc(profile->node_count, sizeof(*is_run));
	bool *is_captured = calloc(profile->node_count, sizeof(*is_captured));
	bool is_done = scopes && is_run && is_captured;

	timeline->scopes = scopes;
	timeline->is_captured = is_captured;
	for (uint64_t i = 1; is_done && i < trace->event_count; i++) {
		const struct row_event *event = trace_event(trace, i);

		if (event && event->kind == EVENT_SCOPE)
			is_run[trace->nodes[event->node] - 1] = true;
	}
	for (uint32_t i = 1; is_done && i < profile->node_count; i++) { /* parents come first */
		const struct row_frame *frame = &profile->frames[profile->nodes[i].frame];
		const char *name = profile_text(profile, frame->name);
		uint32_t parent = profile->nodes[i].parent;
		bool is_start = profile_is_scope(profile, i, "<captured_at>");

		is_captured[i] = is_captured[parent] || is_start;
		if (is_start || (is_run[i] && !is_captured[i]))
			scopes[i] = 0;
		else if (is_captured[i] || (frame->kind == FRAME_NAME && name[0] != '<'))
			scopes[i] = i;
		else
			scopes[i] = scopes[parent];
	}
	return is_done;
}

int timeline_init(struct timeline *timeline, const struct profile *profile,
		  struct proton_error *err)
{
	*timeline = (struct timeline){.profile = profile, .trace = profile->trace};
	if (!profile->trace)
		return err_set(err, PROTON_E_INVALID,
			       "the profile has no events: record it with data=\"trace\"");
	timeline->first = calloc(profile->trace->lane_count + 1, sizeof(*timeline->first));
	if (timeline->first) {
		count_events(timeline);
		if (sort_lanes(timeline) && put_in_order(timeline) && find_scopes(timeline) &&
		    find_arrows(&timeline->backward, profile))
			return PROTON_OK;
	}
	timeline_fini(timeline);
	return err_nomem(err);
}

void timeline_fini(struct timeline *timeline)
{
	FREE_ALL(timeline->order, timeline->first, timeline->lanes, timeline->tracks,
		 timeline->scopes, timeline->is_captured, timeline->backward.arrows,
		 timeline->backward.scopes);
	*timeline = (struct timeline){0};
}

size_t timeline_track_name(const struct timeline *timeline, const struct timeline_track *track,
			   char *text, size_t capacity)
{
	const struct row_lane *lane = &timeline->trace->lanes[track->lane];
	uint32_t number = device_number(timeline, lane);
	int length;

	if (track->kind == TRACK_UNIT && lane->number >> 16)
		length = snprintf(text, capacity, "warp %u (line %u)", lane->number & 0xffff,
				  lane->number >> 16);
	else if (track->kind == TRACK_UNIT)
		length = snprintf(text, capacity, "warp %u", lane->number & 0xffff);
	else if (track->kind == TRACK_THREAD)
		length = snprintf(text, capacity, "CPU Thread %u", lane->number);
	else if (track->kind == TRACK_GRAPH)
		length = snprintf(text, capacity, "GPU %d Graph: Stream %" PRIu64, (int)number,
				  lane->id);
	else if (track->kind == TRACK_MODULES)
		length = snprintf(text, capacity, "GPU %d Modules: Stream %" PRIu64, (int)number,
				  lane->id);
	else if (track->part)
		length = snprintf(text, capacity, "GPU %d Stream %" PRIu64 " (%u)", (int)number,
				  lane->id, track->part + 1);
	else
		length = snprintf(text, capacity, "GPU %d Stream %" PRIu64, (int)number, lane->id);
	return length < 0 ? 0 : (size_t)length < capacity ? (size_t)length : capacity - 1;
}

const char *const timeline_categories[] = {
	[EVENT_SCOPE] = "scope",     [EVENT_LAUNCH] = "launch", [EVENT_KERNEL] = "kernel",
	[EVENT_COPY] = "copy",       [EVENT_SET] = "set",       [EVENT_UNIT] = "warp",
	[EVENT_SECTION] = "section",
};

const char *timeline_launch_name(uint16_t flags)
{
	if (flags & EVENT_OF_GRAPH)
		return "launch graph";
	return flags & EVENT_OF_MEMORY ? "launch memory" : "launch";
}

static void describe_processor(uint32_t processor, char *text, size_t capacity)
{
	uint32_t array = processor >> LANE_AMD_ARRAY & 1;
	char die[16] = "";
	char of_engine[16] = "";

	if (!(processor & LANE_AMD)) {
		snprintf(text, capacity, "Core%u", processor);
		return;
	}
	if (processor & LANE_AMD_DIES)
		snprintf(die, sizeof(die), "XCC%u ", processor >> LANE_AMD_DIE & 15);
	if (processor & LANE_AMD_WGP || array)
		snprintf(of_engine, sizeof(of_engine), "SA%u ", array);
	snprintf(text, capacity, "%sSE%u %s%s%u", die, processor >> LANE_AMD_ENGINE & 255,
		 of_engine, processor & LANE_AMD_WGP ? "WGP" : "CU",
		 processor >> LANE_AMD_UNIT & 255);
}

size_t timeline_group_name(const struct timeline *timeline, const struct timeline_track *track,
			   char *text, size_t capacity)
{
	const struct profile_trace *trace = timeline->trace;
	const struct row_lane *lane = &trace->lanes[track->lane];
	uint32_t name = 0;
	char processor[48];

	if (lane->name < trace->string_count && trace->strings[lane->name])
		name = trace->strings[lane->name] - 1;
	describe_processor((uint32_t)(lane->id >> 32), processor, sizeof(processor));
	int length = snprintf(text, capacity, "%s %s CTA%u", profile_text(timeline->profile, name),
			      processor, (unsigned)lane->id);
	return length < 0 ? 0 : (size_t)length < capacity ? (size_t)length : capacity - 1;
}

/* ------------------------------------------------------------------ samples */

bool timeline_take_sample(const struct timeline *timeline, uint32_t *row,
			  const struct row_metric **metric_out, struct row_sample *sample_out)
{
	const struct profile_trace *trace = timeline->trace;

	if (*row == 0 || *row >= trace->sample_count)
		return false;
	const struct row_sample *sample = &trace->samples[*row];
	if (sample->metric >= trace->metric_count || !trace->metrics[sample->metric])
		return false;
	*metric_out = &timeline->profile->metrics[trace->metrics[sample->metric] - 1];
	*sample_out = *sample;
	if (trace->is_widened[sample->metric])
		sample_out->as.float64 = (double)sample->as.int64;
	*row = sample->next < *row ? sample->next : 0; /* links lead backwards */
	return true;
}

uint32_t timeline_string(const struct timeline *timeline, const struct row_sample *sample)
{
	const struct profile_trace *trace = timeline->trace;
	uint64_t string = sample->as.string;

	return string < trace->string_count && trace->strings[string] ? trace->strings[string] - 1
								      : 0;
}

const uint64_t *timeline_vector(const struct timeline *timeline, const struct row_sample *sample,
				uint64_t *count_out)
{
	const struct profile_trace *trace = timeline->trace;
	uint64_t at = sample->as.vector;
	uint64_t count = at < trace->word_count ? trace->words[at] : 0;

	*count_out = count && count <= trace->word_count - at - 1 ? count : 0;
	return *count_out ? &trace->words[at + 1] : NULL;
}

uint32_t timeline_samples(const struct timeline *timeline, const struct timeline_slice *slice)
{
	const struct row_event *event = slice->event;

	if (event && (event->kind == EVENT_SCOPE || event->kind == EVENT_LAUNCH))
		return __atomic_load_n(&event->link, __ATOMIC_ACQUIRE);
	if (slice->launch && slice->launch->flags & EVENT_NAMED)
		return __atomic_load_n(&slice->launch->link, __ATOMIC_ACQUIRE);
	return 0;
}

/* ------------------------------------------------------------------ slices */

/* The target track of the section's flow; it is on the same CTA and not empty. */
static const struct timeline_track *end_track_of(const struct timeline *timeline,
						 const struct row_event *event)
{
	uint32_t lane = event->link - 1;

	if (!event->link || lane >= timeline->trace->lane_count ||
	    timeline->first[lane] == timeline->first[lane + 1])
		return NULL;
	const struct timeline_track *track = &timeline->tracks[lane];
	return track->kind == TRACK_UNIT && track->pid == timeline->tracks[event->lane].pid ? track
											    : NULL;
}

static void fill_slice(const struct timeline *timeline, uint32_t row, struct timeline_slice *out)
{
	const struct profile_trace *trace = timeline->trace;
	const struct row_event *event = &trace->events[row];

	*out = (struct timeline_slice){
		.start_ns = event->start_ns,
		.end_ns = end_of(timeline, event),
		.node = trace->nodes[event->node] - 1,
		.row = row,
		.event = event,
		.is_unfinished = event->end_ns == 0,
	};
	if (event->kind == EVENT_SECTION)
		out->end_track = end_track_of(timeline, event);
	if (event->kind == EVENT_SCOPE)
		out->is_forward = is_forward(&timeline->backward, row);
	if (event->kind == EVENT_SCOPE || event->kind == EVENT_LAUNCH || event->kind >= EVENT_UNIT)
		return;
	out->forward_row = forward_of(&timeline->backward, row);
	if (out->forward_row) {
		out->forward = &trace->events[out->forward_row];
		out->forward_track = &timeline->tracks[out->forward->lane];
	}
	const struct row_event *launch = trace_event(trace, event->link);
	if (launch && launch->kind == EVENT_LAUNCH) {
		out->launch = launch;
		out->launch_row = event->link;
		out->launch_track = &timeline->tracks[launch->lane];
	}
}

/* Events of a thread nest; one that outlasts its parent (a truncated file) is cut. */
static bool walk_thread(struct walk *walk, uint32_t lane)
{
	const struct timeline *timeline = walk->timeline;
	const struct timeline_track *track = &timeline->tracks[lane];
	uint64_t *ends_ns = NULL;
	size_t depth = 0;

	walk->sink->track(walk->sink->context, track);
	for (uint64_t i = timeline->first[lane]; i < timeline->first[lane + 1]; i++) {
		struct timeline_slice slice;

		fill_slice(timeline, timeline->order[i], &slice);
		slice.track = track;
		while (depth && ends_ns[depth - 1] <= slice.start_ns)
			depth--;
		if (depth && slice.end_ns > ends_ns[depth - 1])
			slice.end_ns = ends_ns[depth - 1];
		if (!ARRAY_ADD(ends_ns, depth, slice.end_ns))
			return false;
		walk->sink->slice(walk->sink->context, &slice);
	}
	walk->sink->track_end(walk->sink->context, track);
	free(ends_ns);
	return true;
}

static uint32_t part_for(uint64_t ends_ns[PARTS_MAX], const struct timeline_slice *slice)
{
	uint32_t earliest = 0;

	for (uint32_t part = 0; part < PARTS_MAX; part++) {
		if (ends_ns[part] <= slice->start_ns)
			return part;
		if (ends_ns[part] < ends_ns[earliest])
			earliest = part;
	}
	return earliest; /* too many concurrent slices: the start is cut off */
}

static void walk_stream(struct walk *walk, uint32_t lane)
{
	const struct timeline *timeline = walk->timeline;
	struct timeline_track parts[PARTS_MAX];
	uint64_t ends_ns[PARTS_MAX] = {0};
	uint32_t seen = 0; /* bit per part */
	uint32_t last_launch = 0;

	for (uint64_t i = timeline->first[lane]; i < timeline->first[lane + 1]; i++) {
		struct timeline_slice slice;

		fill_slice(timeline, timeline->order[i], &slice);
		uint32_t part = part_for(ends_ns, &slice);
		if (slice.start_ns < ends_ns[part])
			slice.start_ns = ends_ns[part];
		if (slice.end_ns < slice.start_ns)
			slice.end_ns = slice.start_ns;
		ends_ns[part] = slice.end_ns;
		if (!(seen & 1u << part)) {
			seen |= 1u << part;
			parts[part] = timeline->tracks[lane];
			parts[part].part = part;
			parts[part].order += part;
			if (part)
				parts[part].tid = walk->next_tid++;
			walk->sink->track(walk->sink->context, &parts[part]);
		}
		slice.track = &parts[part];
		slice.has_arrow = slice.launch && (!(slice.event->flags & EVENT_OF_GRAPH) ||
						   slice.launch_row != last_launch);
		last_launch = slice.launch_row;
		walk->sink->slice(walk->sink->context, &slice);
	}
	for (uint32_t part = 0; part < PARTS_MAX; part++)
		if (seen & 1u << part)
			walk->sink->track_end(walk->sink->context, &parts[part]);
}

/* ------------------------------------------------------------------ scopes of graphs, modules */

struct graph_scope {
	uint32_t node;
	uint32_t launch; /* the row of the graph replay; 0: modules */
};

/*
 * The scopes of the kernel at `i` in the lane's order, outermost first, as nodes of the profile.
 * Returns their number, at most GRAPH_DEPTH_MAX; the innermost of a deeper path are omitted.
 */
static uint32_t scopes_at(const struct timeline *timeline, enum track_kind kind, uint64_t i,
			  uint32_t path[GRAPH_DEPTH_MAX], uint32_t *launch_out)
{
	const struct row_event *event = &timeline->trace->events[timeline->order[i]];
	const struct profile_node *nodes = timeline->profile->nodes;
	uint32_t around = nodes[timeline->trace->nodes[event->node] - 1].parent;
	uint32_t depth = 0;

	*launch_out = kind == TRACK_GRAPH ? event->link : 0;
	if (!(event->flags & EVENT_OF_GRAPH) == (kind == TRACK_GRAPH) ||
	    (kind == TRACK_GRAPH && !timeline->is_captured[around]))
		return 0;
	around = timeline->scopes[around];
	for (uint32_t at = around; at; at = timeline->scopes[nodes[at].parent])
		depth++;
	for (uint32_t at = around, j = depth; j-- > 0; at = timeline->scopes[nodes[at].parent])
		if (j < GRAPH_DEPTH_MAX)
			path[j] = at;
	return depth < GRAPH_DEPTH_MAX ? depth : GRAPH_DEPTH_MAX;
}

/* The time at which the scope opened at depth `depth` by the kernel at `i` closes. */
static uint64_t close_of(const struct timeline *timeline, enum track_kind kind, uint64_t i,
			 uint64_t end, uint32_t depth, struct graph_scope scope)
{
	uint64_t end_ns = 0;

	for (; i < end; i++) {
		uint32_t path[GRAPH_DEPTH_MAX];
		uint32_t launch;
		uint32_t count = scopes_at(timeline, kind, i, path, &launch);

		if (count <= depth || path[depth] != scope.node || launch != scope.launch)
			break;
		uint64_t kernel_end_ns =
			end_of(timeline, &timeline->trace->events[timeline->order[i]]);
		if (kernel_end_ns > end_ns)
			end_ns = kernel_end_ns;
	}
	return end_ns;
}

/* Consecutive kernels (of one replay) in the same scopes become slices of those scopes. */
static void walk_scopes(struct walk *walk, uint32_t lane, enum track_kind kind)
{
	const struct timeline *timeline = walk->timeline;
	uint64_t end = timeline->first[lane + 1];
	struct timeline_track track = timeline->tracks[lane];
	struct graph_scope open[GRAPH_DEPTH_MAX];
	uint64_t starts_ns[GRAPH_DEPTH_MAX];
	uint64_t ends_ns[GRAPH_DEPTH_MAX] = {0}; /* end of the last scope at that depth */
	uint32_t depth = 0;
	bool is_begun = false;

	track.kind = kind;
	track.order -= kind == TRACK_GRAPH ? 2 : 1;
	track.tid = kind == TRACK_GRAPH ? tid_of(timeline, lane, TID_GRAPH) : 0;
	for (uint64_t i = timeline->first[lane]; i < end; i++) {
		const struct row_event *event = &timeline->trace->events[timeline->order[i]];
		uint32_t path[GRAPH_DEPTH_MAX];
		uint32_t launch;
		uint32_t count = scopes_at(timeline, kind, i, path, &launch);
		uint32_t same = 0;

		while (same < depth && same < count && open[same].node == path[same] &&
		       open[same].launch == launch)
			same++;
		for (depth = same; depth < count; depth++) {
			struct graph_scope scope = {.node = path[depth], .launch = launch};
			struct timeline_slice slice = {
				.track = &track,
				.start_ns = event->start_ns,
				.node = scope.node,
			};

			/*
			 * If kernels overlap, the scope of the later one starts after the end of
			 * the earlier scope.
			 */
			if (slice.start_ns < ends_ns[depth])
				slice.start_ns = ends_ns[depth];
			if (depth && slice.start_ns < starts_ns[depth - 1])
				slice.start_ns = starts_ns[depth - 1];
			slice.end_ns = close_of(timeline, kind, i, end, depth, scope);
			if (depth && slice.end_ns > ends_ns[depth - 1])
				slice.end_ns = ends_ns[depth - 1];
			if (slice.end_ns < slice.start_ns)
				slice.end_ns = slice.start_ns;
			open[depth] = scope;
			starts_ns[depth] = slice.start_ns;
			ends_ns[depth] = slice.end_ns;
			if (!is_begun && !track.tid)
				track.tid = walk->next_tid++;
			if (!is_begun)
				walk->sink->track(walk->sink->context, &track);
			is_begun = true;
			walk->sink->slice(walk->sink->context, &slice);
		}
	}
	if (is_begun)
		walk->sink->track_end(walk->sink->context, &track);
}

void timeline_walk(struct timeline *timeline, const struct timeline_sink *sink, struct out *out)
{
	struct walk walk = {.timeline = timeline, .sink = sink, .next_tid = TID_OTHER};

	walk.next_tid += (uint32_t)timeline->trace->lane_count; /* after those of sort_lanes() */
	for (uint64_t i = 0; i < timeline->trace->lane_count; i++) {
		uint32_t lane = timeline->lanes[i];

		if (timeline->first[lane] == timeline->first[lane + 1])
			continue;
		if (timeline->tracks[lane].kind == TRACK_STREAM) {
			walk_scopes(&walk, lane, TRACK_GRAPH);
			walk_scopes(&walk, lane, TRACK_MODULES);
			walk_stream(&walk, lane);
		} else if (!walk_thread(&walk, lane)) {
			out_fail(out, ENOMEM);
			return;
		}
	}
}
