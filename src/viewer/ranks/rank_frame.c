/* --ranks-of: the kernel times of all ranks in a frame. */
#include "viewer/ranks/rank_frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "model/ranks.h"
#include "viewer/export/report_show.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/ranks/rank_frame_print.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_report.h"
#include "viewer/ranks/rank_scan.h"

#define EXIT_BAD 2
#define FRAMES_MAX 4u /* frames that are shown if several match */

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
static int choose(const struct rank_rows *rows, const char *wanted, struct rank_frames *frames,
		  struct proton_error *err)
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
struct search {
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
	struct search *search = context;
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
	struct search search = {.merged = merged, .frames = frames};
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

static int fill(struct rank_frames *frames, const struct profile *merged, const struct input *input,
		bool is_merged, struct proton_error *err)
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
		status = choose(&rows, options->query.ranks_of, &frames, &err);
	}
	if (status == PROTON_OK)
		status = fill(&frames, profile, input, is_merged, &err);
	if (status == PROTON_OK)
		status = report_show(options, profile, rank_frame_write, &frames);
	else if (err.text[0])
		message("%s", err.text);
	frames_fini(&frames);
	rank_rows_fini(&rows);
	profile_free(profile);
	return status < 0 ? EXIT_BAD : status;
}
