/* --ranks-of: the kernel times of all ranks in a frame. */
#include "viewer/ranks/rank_views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/message.h"
#include "model/ranks.h"
#include "viewer/export/report_show.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/report_table.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_numbers.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/rank_scan.h"

#define EXIT_BAD 2
#define FRAMES_MAX 4u /* frames that are shown if several match */
#define BINS_MAX 16u
#define BAR_COLUMNS 40u
#define LIST_DEFAULT 8u

struct rank_time {
	uint32_t rank;
	uint32_t host; /* string of the profile */
	uint64_t time_ns;
};

struct rank_frame {
	struct rank_row row;     /* in ns */
	struct rank_time *times; /* the largest first; none: only the spread is known */
	size_t count, capacity;
	bool has_column;
};

struct rank_frames {
	const struct profile *profile;
	struct rank_frame *items;
	size_t count;
	size_t more;           /* frames that match, too */
	size_t rows;           /* ranks in a list; 0: the default */
	enum name_style names; /* in text */
};

/* ------------------------------------------------------------------ which frames */

/* True if the frame has that name, or the node that path: as stored, or as printed. */
static bool is_named(const struct profile *profile, uint32_t node, const char *name, bool by_path,
		     enum name_style names)
{
	struct out text;
	bool is_equal;
	char *path;

	if (by_path) {
		path = rank_path_named(profile, node, names);
		is_equal = strcmp(path, name) == 0;
		free(path);
		return is_equal;
	}
	out_init(&text, -1);
	name_write_styled(&text, profile, profile->nodes[node].frame, NAME_FULL, names);
	is_equal = text.length == strlen(name) && memcmp(text.bytes, name, text.length) == 0;
	out_fini(&text);
	return is_equal;
}

/* Rows of that path; else those with that name; else those with a name that matches. */
static int choose_frames(const struct rank_rows *rows, const char *wanted,
			 struct rank_frames *frames, struct proton_error *err)
{
	bool *matches = NULL;
	int status = filter_matches(rows->profile, wanted, &matches, err);

	frames->items = xcalloc(rows->count + 1, sizeof(*frames->items));
	for (int way = 0; way < 3 && !frames->count; way++) {
		/* A path or a name may be an invalid pattern. */
		if (way == 2 && status != PROTON_OK)
			break;
		for (size_t i = 0; i < rows->count; i++) {
			uint32_t node = rows->items[i].node;

			if (way == 2 ? matches[node]
				     : is_named(rows->profile, node, wanted, way == 0, NAMES_RAW) ||
					       is_named(rows->profile, node, wanted, way == 0,
							frames->names))
				frames->items[frames->count++].row = rows->items[i];
		}
	}
	free(matches);
	if (!frames->count && status == PROTON_OK)
		status = err_set(err, PROTON_E_INVALID,
				 "--ranks-of %.200s: no frame with kernel time has that path or "
				 "name",
				 wanted);
	if (!frames->count)
		return status;
	frames->more = frames->count > FRAMES_MAX ? frames->count - FRAMES_MAX : 0;
	frames->count -= frames->more;
	return PROTON_OK;
}

/* ------------------------------------------------------------------ their times */

static void add_time(struct rank_frame *frame, uint32_t rank, uint32_t host, uint64_t time_ns)
{
	xreserve(&frame->times, &frame->capacity, frame->count + 1, sizeof(*frame->times));
	frame->times[frame->count++] =
		(struct rank_time){.rank = rank, .host = host, .time_ns = time_ns};
}

static bool add_column(struct rank_frame *frame, const struct profile *profile)
{
	const uint64_t *column = ranks_column(profile, frame->row.node);
	const struct profile_ranks *ranks = profile->ranks;

	for (size_t i = 0; column && i < ranks->count; i++)
		if (column[i])
			add_time(frame, ranks->rows[i].rank, ranks->rows[i].host, column[i]);
	return column != NULL;
}

/* While the profiles of ranks are read. */
struct time_search {
	const struct profile *merged;
	struct rank_frames *frames;
	uint32_t *nodes;   /* in the growing tree, by frame; UINT32_MAX: not there yet */
	size_t node_count; /* of that tree, when they were searched */
};

static bool is_same_frame(const struct profile *a, uint32_t left, const struct profile *b,
			  uint32_t right)
{
	const struct profile_frame *x = &a->frames[left];
	const struct profile_frame *y = &b->frames[right];

	/* A growing tree does not know yet which names are kernels. */
	return (x->kind == FRAME_SOURCE) == (y->kind == FRAME_SOURCE) && x->line == y->line &&
	       strcmp(profile_text(a, x->name), profile_text(b, y->name)) == 0 &&
	       strcmp(profile_text(a, x->file), profile_text(b, y->file)) == 0;
}

/* The node of `sum` with the path of a node of `merged`. */
static uint32_t find_node(const struct profile *sum, const struct profile *merged, uint32_t node)
{
	uint32_t *chain = NULL;
	size_t capacity = 0;
	size_t depth = 0;
	uint32_t found = 0;

	for (; node; node = merged->nodes[node].parent) {
		xreserve(&chain, &capacity, depth + 1, sizeof(*chain));
		chain[depth++] = node;
	}
	while (depth && found != UINT32_MAX) {
		uint32_t frame = merged->nodes[chain[--depth]].frame;
		uint32_t child = sum->nodes[found].first_child;

		while (child && !is_same_frame(sum, sum->nodes[child].frame, merged, frame))
			child = sum->nodes[child].next_sibling;
		found = child ? child : UINT32_MAX;
	}
	free(chain);
	return found;
}

static int add_rank(void *context, const struct rank_scan_step *step, struct proton_error *err)
{
	struct time_search *search = context;
	struct rank_frames *frames = search->frames;
	const struct row_rank *row = ranks_row(search->merged, step->rank);
	uint64_t kernels;
	uint64_t *times = ranks_times(step->source, &kernels);

	(void)err;
	if (!times)
		xgive_up();
	for (size_t f = 0; f < frames->count && step->sum->node_count != search->node_count; f++)
		search->nodes[f] = find_node(step->sum, search->merged, frames->items[f].row.node);
	search->node_count = step->sum->node_count;
	for (size_t f = 0; f < frames->count; f++) {
		uint64_t time_ns = 0;

		for (size_t i = 0; i < step->source->node_count; i++)
			if (step->nodes[i] == search->nodes[f])
				time_ns += times[i];
		if (time_ns && !frames->items[f].has_column)
			add_time(&frames->items[f], step->rank, row ? row->host : 0, time_ns);
	}
	free(times);
	return PROTON_OK;
}

/* Times from the profiles of the ranks; nothing if there are none. */
static int read_times(struct rank_frames *frames, const struct profile *merged,
		      const struct input *input, bool is_merged, struct proton_error *err)
{
	struct time_search search = {.merged = merged, .frames = frames};
	struct proton_error none;
	struct profile *sum;
	struct input files;
	int status = PROTON_OK;

	search.nodes = xcalloc(frames->count + 1, sizeof(*search.nodes));
	if (rank_input_files(input, is_merged, "--ranks-of", &files, &none) == PROTON_OK) {
		status = rank_scan(files.paths, files.count, add_rank, &search, &sum, err);
		if (status == PROTON_OK)
			profile_free(sum);
	}
	input_fini(&files);
	free(search.nodes);
	return status;
}

static int compare_times(const void *left, const void *right)
{
	const struct rank_time *a = left;
	const struct rank_time *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns > b->time_ns ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

static int fill_times(struct rank_frames *frames, const struct profile *merged,
		      const struct input *input, bool is_merged, struct proton_error *err)
{
	size_t missing = 0;
	int status = PROTON_OK;

	for (size_t f = 0; f < frames->count; f++) {
		frames->items[f].has_column = add_column(&frames->items[f], merged);
		missing += !frames->items[f].has_column;
	}
	if (missing)
		status = read_times(frames, merged, input, is_merged, err);
	for (size_t f = 0; f < frames->count; f++)
		if (frames->items[f].count)
			qsort(frames->items[f].times, frames->items[f].count,
			      sizeof(*frames->items[f].times), compare_times);
	return status;
}

/* ------------------------------------------------------------------ histogram */

struct bin {
	double from_ns, to_ns;
	uint64_t ranks;
};

/* Bins of equal width between the extremes; one if all times are equal. */
static size_t make_bins(const struct rank_frame *frame, struct bin *bins)
{
	double low = (double)frame->times[frame->count - 1].time_ns;
	double high = (double)frame->times[0].time_ns;
	size_t count = high > low ? BINS_MAX : 1;
	double width = (high - low) / (double)count;

	for (size_t b = 0; b < count; b++)
		bins[b] = (struct bin){low + width * (double)b, low + width * (double)(b + 1), 0};
	for (size_t i = 0; i < frame->count; i++) {
		double at = width > 0 ? ((double)frame->times[i].time_ns - low) / width : 0;

		bins[at < (double)count ? (size_t)at : count - 1].ranks++;
	}
	return count;
}

/* The buckets of a spread, without the empty ones at both ends. */
static size_t copy_buckets(const struct row_spread *spread, struct bin *bins)
{
	uint32_t first = 0;
	uint32_t end = SPREAD_BUCKETS;

	while (first < end && !spread->bucket[first])
		first++;
	while (end > first && !spread->bucket[end - 1])
		end--;
	for (uint32_t i = first; i < end; i++)
		bins[i - first] = (struct bin){(double)(1ull << (i + 9)),
					       (double)(1ull << (i + 10)), spread->bucket[i]};
	return end - first;
}

static size_t bins_of(const struct rank_frame *frame, struct bin *bins)
{
	if (frame->count)
		return make_bins(frame, bins);
	return frame->row.spread ? copy_buckets(frame->row.spread, bins) : 0;
}

static void print_bins(const struct rank_frame *frame, struct out *out)
{
	struct bin bins[SPREAD_BUCKETS + BINS_MAX];
	size_t count = bins_of(frame, bins);
	uint64_t largest = 1;

	for (size_t b = 0; b < count; b++)
		largest = bins[b].ranks > largest ? bins[b].ranks : largest;
	out_printf(out, "%11s %10s %8s\n", "from", "to", "ranks");
	for (size_t b = 0; b < count; b++) {
		uint64_t bar = (bins[b].ranks * BAR_COLUMNS + largest - 1) / largest;

		report_print_value(out, bins[b].from_ns / 1e6);
		report_print_value(out, bins[b].to_ns / 1e6);
		out_printf(out, " %8" PRIu64 "%s", bins[b].ranks, bar ? "  " : "");
		while (bar--)
			out_byte(out, '#');
		out_byte(out, '\n');
	}
}

/* ------------------------------------------------------------------ text */

static void print_list(const struct rank_frames *frames, const struct rank_frame *frame,
		       const char *title, size_t first, size_t end, struct out *out)
{
	double mean = rank_row_mean(&frame->row);

	out_printf(out, "\n%7s %10s %8s  %s\n", "rank", title, "vs mean", "host");
	for (size_t i = first; i < end; i++) {
		const struct rank_time *time = &frame->times[i];
		const char *host = profile_text(frames->profile, time->host);

		out_printf(out, "%7u", time->rank);
		report_print_value(out, (double)time->time_ns / 1e6);
		out_printf(out, " %+7.1f%%%s", 100 * ((double)time->time_ns / mean - 1),
			   *host ? "  " : "");
		text_clean(out, host, strlen(host));
		out_byte(out, '\n');
	}
}

/* The eight largest of a spread. */
static void print_top(const struct rank_frame *frame, struct out *out)
{
	const struct row_spread *spread = frame->row.spread;

	out_printf(out, "\n%7s %10s %8s\n", "rank", "slowest", "vs mean");
	for (uint32_t i = 0; spread && i < SPREAD_TOP && spread->top_ns[i]; i++) {
		out_printf(out, "%7u", spread->top_rank[i]);
		report_print_value(out, (double)spread->top_ns[i] / 1e6);
		out_printf(out, " %+7.1f%%\n",
			   100 * ((double)spread->top_ns[i] / rank_row_mean(&frame->row) - 1));
	}
	out_text(out, "\n(the merged file has no column for this frame, and the profiles of the "
		      "ranks are not next to it)\n");
}

static void print_frame(const struct rank_frames *frames, const struct rank_frame *frame,
			struct out *out)
{
	const struct rank_row *row = &frame->row;
	char *path = rank_path_named(frames->profile, row->node, frames->names);
	size_t limit = frames->rows ? frames->rows : LIST_DEFAULT;

	text_clean(out, path, strlen(path));
	out_printf(out,
		   "\n%u rank%s; times in ms: mean %.3f, minimum %.3f (rank %u), maximum %.3f "
		   "(rank %u), imbalance %.1f%%, could go %.3f\n\n",
		   row->ranks, row->ranks == 1 ? "" : "s", rank_row_mean(row) / 1e6, row->min / 1e6,
		   row->min_rank, row->max / 1e6, row->max_rank, 100 * rank_row_imbalance(row),
		   rank_row_saving(row) / 1e6);
	print_bins(frame, out);
	if (!frame->count) {
		print_top(frame, out);
	} else if (frame->count <= 2 * limit) {
		print_list(frames, frame, "time", 0, frame->count, out);
	} else {
		print_list(frames, frame, "slowest", 0, limit, out);
		print_list(frames, frame, "fastest", frame->count - limit, frame->count, out);
	}
	free(path);
}

static void print_frames(const struct rank_frames *frames, struct out *out)
{
	for (size_t f = 0; f < frames->count; f++) {
		if (f)
			out_byte(out, '\n');
		print_frame(frames, &frames->items[f], out);
	}
	if (frames->more)
		out_printf(out, "\n%zu more frames match; name one by its path\n", frames->more);
}

/* ------------------------------------------------------------------ CSV and JSON */

static void write_csv(const struct rank_frames *frames, struct report *report)
{
	static const struct report_field fields[] = {
		{.name = "path"}, {.name = "rank"}, {.name = "host"}, {.name = "time_ns"}};

	report_begin(report, NULL, fields, ARRAY_LENGTH(fields));
	for (size_t f = 0; f < frames->count; f++) {
		const struct rank_frame *frame = &frames->items[f];
		char *path = rank_path(frames->profile, frame->row.node);

		for (size_t i = 0; i < frame->count && !report->out->errnum; i++) {
			const struct rank_time *time = &frame->times[i];
			const char *host = profile_text(frames->profile, time->host);
			const struct report_value values[] = {VALUE_TEXT(path),
							      VALUE_COUNT(time->rank),
							      VALUE_TEXT(host),
							      VALUE_COUNT(time->time_ns)};

			report_row(report, values);
		}
		free(path);
	}
}

static void write_bins(const struct rank_frame *frame, struct json_writer *json)
{
	struct bin bins[SPREAD_BUCKETS + BINS_MAX];
	size_t count = bins_of(frame, bins);

	json_key_array(json, "histogram");
	for (size_t b = 0; b < count; b++) {
		json_begin_object(json);
		json_key_double(json, "from_ns", bins[b].from_ns);
		json_key_double(json, "to_ns", bins[b].to_ns);
		json_key_uint64(json, "ranks", bins[b].ranks);
		json_end_object(json);
	}
	json_end_array(json);
}

/* Arrays of equal length, the slowest rank first. */
static void write_columns(const struct rank_frames *frames, const struct rank_frame *frame,
			  struct json_writer *json)
{
	json_key_object(json, "columns");
	json_key_array(json, "rank");
	for (size_t i = 0; i < frame->count; i++)
		json_uint64(json, frame->times[i].rank);
	json_end_array(json);
	json_key_array(json, "host");
	for (size_t i = 0; i < frame->count; i++) {
		const char *host = profile_text(frames->profile, frame->times[i].host);

		json_string(json, host, strlen(host));
	}
	json_end_array(json);
	json_key_array(json, "time_ns");
	for (size_t i = 0; i < frame->count; i++)
		json_uint64(json, frame->times[i].time_ns);
	json_end_array(json);
	json_end_object(json);
}

static void write_json(const struct rank_frames *frames, struct json_writer *json)
{
	json_key_uint64(json, "more", frames->more);
	json_key_array(json, "frames");
	for (size_t f = 0; f < frames->count && !json->out->errnum; f++) {
		const struct rank_frame *frame = &frames->items[f];
		char *path = rank_path(frames->profile, frame->row.node);

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "path", path);
		rank_row_json(&frame->row, "_ns", json);
		write_bins(frame, json);
		write_columns(frames, frame, json);
		json_end_object(json);
		free(path);
	}
	json_end_array(json);
}

static void write_frames(const void *frames, struct report *report)
{
	if (report->format == REPORT_TEXT)
		print_frames(frames, report->out);
	else if (report->format == REPORT_CSV)
		write_csv(frames, report);
	else
		write_json(frames, &report->json);
}

/* ------------------------------------------------------------------ --ranks-of */

static void frames_fini(struct rank_frames *frames)
{
	for (size_t f = 0; f < frames->count; f++)
		free(frames->items[f].times);
	free(frames->items);
}

int rank_frame_run(const struct options *options, struct input *input)
{
	struct rank_frames frames = {.rows = options->query.rows, .names = options->style.names};
	struct proton_error err = {0};
	struct profile *profile = NULL;
	struct rank_rows rows = {0};
	bool is_merged = false;
	int status = rank_input_load(input, &profile, &is_merged, &err);

	if (status == PROTON_OK && !rank_report_state(profile) && options->output.exporter &&
	    !options->query.allow_partial)
		status = err_set(&err, PROTON_E_INVALID,
				 "%s needs complete profiles; use --allow-partial to accept these",
				 options->output.option);
	if (status == PROTON_OK) {
		frames.profile = profile;
		rank_rows_of_time(&rows, profile, "time/ns");
		status = choose_frames(&rows, options->query.ranks_of, &frames, &err);
	}
	if (status == PROTON_OK)
		status = fill_times(&frames, profile, input, is_merged, &err);
	if (status == PROTON_OK)
		status = report_show(options, profile, write_frames, &frames);
	else if (err.text[0])
		message("%s", err.text);
	frames_fini(&frames);
	rank_rows_fini(&rows);
	profile_free(profile);
	return status < 0 ? EXIT_BAD : status;
}
