/*
 * One trace of several processes, such as the ranks of a job. Their clocks are compared by
 * collectives: all ranks of a communicator leave one at about the same time. So the shift of a
 * rank's clock is the median of its distances to ranks before it, and the error is their median
 * deviation from that.
 */
#include <inttypes.h>

#include "base/array.h"
#include "base/message.h"
#include "export/html_timeline.h"
#include "format/gzip_write.h"
#include "format/rank.h"
#include "viewer/export/save.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_views.h"

#define COLLECTIVES_MIN 3u /* fewer do not show an error */

/* One collective in one process; `key`: its name and communicator. */
struct meeting {
	uint64_t key;
	uint64_t start_ns;
	uint64_t end_ns;
};

struct meetings {
	struct meeting *items; /* by key, then by time */
	size_t count;
};

struct process {
	const char *path;
	char *name;
	uint64_t start_ns;
	int64_t shift_ns;
};

struct joined {
	const struct exporter *exporter; /* NULL: a report, which has read the files before */
	struct process *processes;
	uint32_t count;
	uint32_t world; /* the number of ranks that they were told */
	char *launch;   /* of the first */
	uint64_t base_ns;
	struct meetings known;
	struct profile *about; /* with the size of all files */
};

ARRAY_ORDER(compare_meetings, struct meeting,
	    ORDER_OF(a->key, b->key) ?: ORDER_OF(a->start_ns, b->start_ns))

ARRAY_ORDER(compare_distances, int64_t, ORDER_OF(*a, *b))

static int64_t median_of(int64_t *values, size_t count)
{
	ARRAY_SORT(values, count, compare_distances);
	return values[count / 2];
}

/* By node: the key of a collective, or 0. */
static uint64_t *find_collectives(const struct profile *profile)
{
	const struct profile_waits *waits = profile->waits;
	uint64_t *keys = xcalloc(profile->node_count, sizeof(*keys));

	for (size_t i = 0; waits && i < waits->duration_count; i++) {
		uint32_t node = waits->durations[i].node;
		const char *group = waits_group(profile, &waits->durations[i]);
		const char *name =
			profile_text(profile, profile->frames[profile->nodes[node].frame].name);

		keys[node] = hash_bytes(name, strlen(name)) * 31 + hash_bytes(group, strlen(group));
	}
	keys[0] = 0;
	return keys;
}

static struct meetings meetings_of(const struct profile *profile, uint64_t *start_ns_out)
{
	const struct profile_trace *trace = profile->trace;
	AUTO_FREE uint64_t *keys = find_collectives(profile);
	struct meetings own = {0};

	*start_ns_out = UINT64_MAX;
	for (uint64_t i = 1; i < trace->event_count; i++) {
		const struct row_event *event = trace_event(trace, i);
		uint64_t key = event ? keys[trace->nodes[event->node] - 1] : 0;

		if (event && event->start_ns < *start_ns_out)
			*start_ns_out = event->start_ns;
		if (key && event->end_ns &&
		    (event->kind == EVENT_KERNEL || event->kind == EVENT_SCOPE))
			XADD(own.items, own.count,
			     (struct meeting){key, event->start_ns, event->end_ns});
	}
	ARRAY_SORT(own.items, own.count, compare_meetings);
	return own;
}

static size_t end_of_key(const struct meetings *meetings, size_t first)
{
	size_t end = first;

	while (end < meetings->count && meetings->items[end].key == meetings->items[first].key)
		end++;
	return end;
}

/* Limited, because times of a damaged file may be anything. */
static int64_t distance_of(uint64_t end_ns, uint64_t known_ns)
{
	int64_t distance = (int64_t)(end_ns - known_ns);
	int64_t max = INT64_MAX / 4;

	return distance > max ? max : distance < -max ? -max : distance;
}

/* The distances of what both have equally often; adds what only `own` has to `known`. */
static int64_t *compare_clocks(struct meetings *known, const struct meetings *own,
			       size_t *count_out)
{
	int64_t *distances = xcalloc(own->count + 1, sizeof(*distances));
	size_t before = known->count;
	size_t k = 0;

	*count_out = 0;
	for (size_t i = 0, end; i < own->count; i = end) {
		end = end_of_key(own, i);
		while (k < before && known->items[k].key < own->items[i].key)
			k++;
		if (k == before || known->items[k].key != own->items[i].key) {
			for (size_t j = i; j < end; j++)
				XADD(known->items, known->count, own->items[j]);
			continue;
		}
		for (size_t j = i; end_of_key(known, k) - k == end - i && j < end; j++)
			distances[(*count_out)++] =
				distance_of(own->items[j].end_ns, known->items[k + j - i].end_ns);
	}
	return distances;
}

/* Sets the shift of a process and appends it to its name. */
static void align(struct process *process, struct meetings *known, struct meetings *own)
{
	size_t before = known->count;
	size_t count;
	AUTO_FREE int64_t *distances = compare_clocks(known, own, &count);
	char *name = process->name;

	if (count < COLLECTIVES_MIN)
		count = 0;
	int64_t distance = count ? median_of(distances, count) : 0;
	for (size_t i = 0; i < count; i++)
		distances[i] = llabs(distances[i] - distance);
	int64_t error = count ? median_of(distances, count) : 0;
	process->shift_ns = llabs(distance) > error ? -distance : 0;
	for (size_t i = before; i < known->count; i++)
		known->items[i].end_ns += (uint64_t)process->shift_ns;
	ARRAY_SORT(known->items, known->count, compare_meetings);
	if (count)
		process->name = xasprintf("%s, clock %+.3f us (error %.3f us, %zu collectives)",
					  name, (double)process->shift_ns / 1e3,
					  (double)error / 1e3, count);
	else if (before)
		process->name = xasprintf("%s, clock not compared", name);
	if (process->name != name)
		free(name);
	free(own->items);
}

static const char *label_of(const struct input *input, size_t file)
{
	size_t u = 0;

	while (file >= input->units[u].first + input->units[u].count)
		u++;
	return input->units[u].count == 1 ? input->labels[u] : input->paths[file];
}

static char *name_of(const struct input *input, size_t index, const struct profile *profile)
{
	const char *rank = profile_info_text(profile, "rank");
	const char *host = profile_info_text(profile, "host");

	return xasprintf("%s%s%s%s, pid %" PRIu32, *rank ? "rank " : "",
			 *rank ? rank : label_of(input, index), *host ? ", " : "", host,
			 profile->pid);
}

/* True if the file may be in one trace with those before it; else prints why not. */
static bool is_fitting(struct joined *joined, const struct input *input, const char *path,
		       const struct profile *profile)
{
	char *launch = xasprintf("%s %s", profile_info_text(profile, "job"),
				 profile_info_text(profile, "launch"));
	bool is_same = !joined->launch || strcmp(launch, joined->launch) == 0;

	if (!profile->trace)
		message("%s has no events: record it with data=\"trace\"", path);
	else if (!is_same && !input->is_mixed_allowed)
		message("%s is of another launch than %s; use --allow-mixed to show both", path,
			joined->processes[0].path);
	if (joined->launch)
		free(launch);
	else
		joined->launch = launch;
	return profile->trace && (is_same || input->is_mixed_allowed);
}

/* The process that a file was copied from: it has the name, and began in the same nanosecond. */
static const struct process *find_copied(const struct joined *joined, const struct process *copy)
{
	for (uint32_t i = 0; i < joined->count; i++)
		if (joined->processes[i].start_ns == copy->start_ns &&
		    strncmp(joined->processes[i].name, copy->name, strlen(copy->name)) == 0)
			return &joined->processes[i];
	return NULL;
}

/* False after a message. */
static bool add_process(struct joined *joined, const struct input *input, size_t index,
			const struct profile *profile)
{
	struct process *process = &joined->processes[joined->count];
	uint32_t world;

	process->path = input->paths[index];
	if (!is_fitting(joined, input, process->path, profile))
		return false;
	process->name = name_of(input, index, profile);
	struct meetings own = meetings_of(profile, &process->start_ns);
	const struct process *copied = find_copied(joined, process);
	if (copied) {
		if (joined->exporter)
			message("%s is a copy of %s: it is shown once", process->path,
				copied->path);
		free(process->name);
		free(own.items);
		return true;
	}
	joined->count++;
	align(process, &joined->known, &own);
	if (process->start_ns + (uint64_t)process->shift_ns < joined->base_ns)
		joined->base_ns = process->start_ns + (uint64_t)process->shift_ns;
	if (rank_parse(profile_info_text(profile, "world_size"), &world) && world > joined->world)
		joined->world = world;
	joined->about->file_bytes += profile->file_bytes;
	if (joined->exporter)
		input_report_losses(profile);
	return true;
}

/* Reads all files for their clocks, except for a merged file of ranks. False after a message. */
static bool read_clocks(struct joined *joined, struct input *input)
{
	bool is_read = true;

	for (size_t i = 0; i < input->count && is_read; i++) {
		struct profile *profile = joined->exporter ? input_load(input, i)
							   : input_load_quietly(input->paths[i]);
		bool is_skipped = profile ? profile->ranks || !(profile->trace || joined->exporter)
					  : !joined->exporter;

		is_read = is_skipped || (profile && add_process(joined, input, i, profile));
		profile_free(profile);
	}
	if (is_read && joined->count < joined->world && joined->exporter)
		message("the trace has %" PRIu32 " of %" PRIu32 " ranks", joined->count,
			joined->world);
	return is_read;
}

static struct trace_part part_of(const struct joined *joined, uint32_t number)
{
	return (struct trace_part){
		.number = number,
		.count = joined->count,
		.name = joined->processes[number].name,
		.shift_ns = joined->processes[number].shift_ns,
		.base_ns = joined->base_ns,
	};
}

static int write_joined(const void *context, struct out *out, struct proton_error *err)
{
	const struct joined *joined = context;
	struct gzip_writer gzip;
	int status = PROTON_OK;

	if (joined->exporter->is_binary)
		gzip_begin(&gzip, out);
	for (uint32_t i = 0; i < joined->count && status == PROTON_OK; i++) {
		const struct process *process = &joined->processes[i];
		struct profile *profile = input_load_quietly(process->path);
		struct trace_part part = part_of(joined, i);

		part.gzip = joined->exporter->is_binary ? &gzip : NULL;
		status = profile && profile->trace
				 ? joined->exporter->write_part(profile, &part, out, err)
				 : err_set(err, PROTON_E_INVALID,
					   "cannot read %s a second time, after its clock",
					   input_display_name(process->path));
		profile_free(profile);
	}
	if (joined->exporter->is_binary)
		gzip_end(&gzip);
	return status;
}

static void joined_init(struct joined *joined, const struct exporter *exporter,
			const struct input *input)
{
	*joined = (struct joined){
		.exporter = exporter,
		.processes = xcalloc(input->count, sizeof(*joined->processes)),
		.base_ns = UINT64_MAX,
		.about = profile_new(),
	};
	if (!joined->about)
		xgive_up();
}

static void joined_fini(struct joined *joined)
{
	for (size_t i = 0; i < joined->count; i++)
		free(joined->processes[i].name);
	FREE_ALL(joined->processes, joined->launch, joined->known.items);
	profile_free(joined->about);
}

int rank_traces_run(const struct options *options, struct input *input)
{
	AT_END(joined_fini) struct joined joined;
	struct proton_error err;
	int status = EXIT_BAD;

	joined_init(&joined, options->output.exporter, input);
	if (read_clocks(&joined, input))
		status = save_output(&options->output, joined.about, write_joined, &joined, &err);
	if (status < 0)
		message("%s", err.text);
	return status ? EXIT_BAD : 0;
}

/* ------------------------------------------------------------------ the report */

static void write_line(const struct joined *joined, const struct export_view *page, struct out *out)
{
	struct html_timeline line;

	html_timeline_init(&line, page, out);
	for (uint32_t i = 0; i < joined->count && !out->errnum; i++) {
		struct profile *profile = input_load_quietly(joined->processes[i].path);
		struct trace_part part = part_of(joined, i);
		uint32_t rank;

		/* The page has the names that merging has made. */
		if (profile && rank_parse(profile_info_text(profile, "rank"), &rank))
			rank_names_unify(profile, rank, NULL);
		if (profile && profile->trace)
			html_timeline_add(&line, profile, &part);
		profile_free(profile);
	}
	html_timeline_end(&line);
}

void rank_traces_report(struct input *input, const struct export_view *page, struct out *out)
{
	AT_END(input_fini) struct input files = {0};
	struct joined joined;

	if (input->count == 1 && !page->profile->ranks)
		return;
	if (input->count == 1 &&
	    rank_input_files(input, page->profile, "", &files, NULL) == PROTON_OK)
		input = &files;
	/* A job of trees is not read again. */
	struct profile *first = input_load_quietly(input->paths[0]);
	joined_init(&joined, NULL, input);
	if (first && first->trace && read_clocks(&joined, input) && joined.count)
		write_line(&joined, page, out);
	profile_free(first);
	joined_fini(&joined);
}
