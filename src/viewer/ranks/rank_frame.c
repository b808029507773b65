/* --ranks-of: the kernel times of all ranks in a frame. */
#include "viewer/ranks/rank_views.h"

#include "base/array.h"
#include "base/message.h"
#include "model/ranks.h"
#include "viewer/export/save.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/report_table.h"
#include "viewer/print/xalloc.h"
#include "viewer/query/filter.h"
#include "viewer/ranks/rank_columns.h"
#include "viewer/ranks/rank_job_input.h"
#include "viewer/ranks/rank_merge.h"
#include "viewer/ranks/rank_numbers.h"
#include "viewer/ranks/rank_report.h"

#define FRAMES_MAX 4u /* frames that are shown if several match */
#define BINS_MAX 16u
#define LIST_DEFAULT 8u

struct rank_time {
	uint32_t rank;
	uint32_t host; /* string of the profile */
	uint64_t time_ns;
};

struct rank_frame {
	struct rank_row row;     /* in ns */
	struct rank_time *times; /* the largest first; none: only the spread is known */
	size_t count;
};

struct rank_frames {
	const struct profile *profile;
	struct rank_frame *items;
	size_t count;
	size_t more;           /* frames that match, too */
	enum name_style names; /* in text */
};

/* ------------------------------------------------------------------ which frames */

/* True if the frame has that name, or the node that path: as stored, or as printed. */
static bool is_named(const struct profile *profile, uint32_t node, const char *name, bool by_path,
		     enum name_style names)
{
	AUTO_FREE char *text = by_path ? rank_path(profile, node, names)
				       : name_text(profile, profile->nodes[node].frame, names);
	return strcmp(text, name) == 0;
}

/* Rows of that path; else those with that name; else those with a name that matches. */
static int choose_frames(const struct rank_rows *rows, const char *wanted,
			 struct rank_frames *frames, struct proton_error *err)
{
	AUTO_FREE bool *matches = NULL;
	int status = filter_matches(rows->profile, NULL, wanted, &matches, err);

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

/* `job`: has the column. If it is not the profile of the frames, its strings have other numbers. */
static void add_column(struct rank_frame *frame, const struct profile *profile,
		       const struct profile *job)
{
	const uint64_t *column = job ? ranks_column(job, frame->row.node) : NULL;

	for (size_t i = 0; column && i < job->ranks->count; i++) {
		const struct row_rank *row = &job->ranks->rows[i];
		const struct row_rank *known = job == profile ? row : ranks_row(profile, row->rank);

		if (column[i])
			XADD(frame->times, frame->count,
			     (struct rank_time){row->rank, known ? known->host : 0, column[i]});
	}
}

/* The job of the profiles next to a merged file, with its times; NULL: they are not there. */
static struct profile *merge_files(const struct rank_frames *frames, const struct input *input)
{
	struct profile *merged = NULL;
	AT_END(input_fini) struct input files = {0};
	struct proton_error none;
	struct rank_job job;

	if (rank_input_files(input, frames->profile, "--ranks-of", &files, &none) == PROTON_OK) {
		rank_job_init(&job, files.paths, files.count);
		job.columns = 0;
		job.keeps_times = job.is_mixed_allowed = true;
		if (rank_merge_all(&job, &merged, &none) != PROTON_OK)
			merged = NULL;
		rank_job_fini(&job);
	}
	return merged;
}

ARRAY_ORDER(compare_times, struct rank_time,
	    ORDER_OF(b->time_ns, a->time_ns) ?: ORDER_OF(a->rank, b->rank))

/* From columns of the merged job, or the profiles of the ranks, if they are there. */
static int fill_times(struct rank_frames *frames, struct profile *profile,
		      const struct input *input, struct proton_error *err)
{
	struct profile *merged = NULL;
	struct profile *job = profile;
	bool has_column[FRAMES_MAX];
	uint32_t nodes[FRAMES_MAX];
	bool has_all = true;
	int status = PROTON_OK;

	for (size_t f = 0; f < frames->count; f++) {
		nodes[f] = frames->items[f].row.node;
		has_column[f] = ranks_column(profile, nodes[f]);
		has_all &= has_column[f];
	}
	AUTO_FREE struct rank_path *paths = rank_paths_of(profile, nodes, frames->count);
	if (!has_all && !profile->ranks->kept)
		job = merged = merge_files(frames, input);
	if (!has_all && job)
		status = rank_turn_columns(job, paths, nodes, frames->count, err);
	for (size_t f = 0; f < frames->count; f++) {
		add_column(&frames->items[f], profile, has_column[f] ? profile : job);
		ARRAY_SORT(frames->items[f].times, frames->items[f].count, compare_times);
	}
	profile_free(merged);
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

static void write_bins(const struct rank_frame *frame, struct report *report)
{
	static const struct report_field fields[] = {
		{.name = "from_ns", .title = "from", .columns = 10, .unit = REPORT_NS},
		{.name = "to_ns", .title = "to", .columns = 10, .unit = REPORT_NS},
		{.name = "ranks", .title = "ranks", .columns = 8},
		{.title = ""},
	};
	static const char bar[] = "########################################";
	struct bin bins[SPREAD_BUCKETS + BINS_MAX];
	size_t count = frame->count        ? make_bins(frame, bins)
		       : frame->row.spread ? copy_buckets(frame->row.spread, bins)
					   : 0;
	uint64_t largest = 1;

	for (size_t b = 0; b < count; b++)
		largest = bins[b].ranks > largest ? bins[b].ranks : largest;
	report_begin(report, "histogram", fields, ARRAY_LENGTH(fields));
	for (size_t b = 0; b < count; b++) {
		const struct report_value values[] = {
			VALUE_NUMBER(bins[b].from_ns),
			VALUE_NUMBER(bins[b].to_ns),
			VALUE_COUNT(bins[b].ranks),
			report_string(bar,
				      (bins[b].ranks * (sizeof(bar) - 1) + largest - 1) / largest),
		};

		report_row(report, values);
	}
	report_end(report);
}

/* ------------------------------------------------------------------ ranks */

/* The fields of a rank; in text with a title of the time, and without hosts if they are unknown. */
static void begin_ranks(struct report *report, const char *title, bool has_hosts)
{
	static struct report_field fields[] = {
		{.name = "path"},
		{.name = "rank", .title = "rank", .columns = 6},
		{.name = "host", .place = 1},
		{.name = "time_ns", .columns = 10, .unit = REPORT_NS},
		{.title = "vs mean", .columns = 8, .unit = REPORT_SHARE, .has_sign = true},
	};

	fields[2].title = has_hosts ? "host" : NULL;
	fields[3].title = title;
	report_begin(report, NULL, fields, ARRAY_LENGTH(fields));
}

static void write_rank(const struct rank_frame *frame, const char *path, uint32_t rank,
		       const char *host, uint64_t time_ns, struct report *report)
{
	const struct report_value values[] = {
		VALUE_TEXT(path),
		VALUE_COUNT(rank),
		VALUE_TEXT(host),
		VALUE_COUNT(time_ns),
		VALUE_NUMBER((double)time_ns / rank_row_mean(&frame->row) - 1),
	};

	report_row(report, values);
}

static void write_ranks(const struct rank_frames *frames, const struct rank_frame *frame,
			const char *path, size_t first, size_t end, struct report *report)
{
	for (size_t i = first; i < end && !report->out->errnum; i++) {
		const struct rank_time *time = &frame->times[i];

		write_rank(frame, path, time->rank, profile_text(frames->profile, time->host),
			   time->time_ns, report);
	}
}

/* ------------------------------------------------------------------ text */

static void print_list(const struct rank_frames *frames, const struct rank_frame *frame,
		       const char *title, size_t first, size_t end, struct report *report)
{
	out_byte(report->out, '\n');
	begin_ranks(report, title, true);
	write_ranks(frames, frame, "", first, end, report);
}

/* The eight largest of a spread. */
static void print_top(const struct rank_frame *frame, struct report *report)
{
	const struct row_spread *spread = frame->row.spread;

	out_byte(report->out, '\n');
	begin_ranks(report, "slowest", false);
	for (uint32_t i = 0; spread && i < SPREAD_TOP && spread->top_ns[i]; i++)
		write_rank(frame, "", spread->top_rank[i], "", spread->top_ns[i], report);
	out_text(report->out,
		 "\n(the merged file has no column for this frame, and the profiles of "
		 "the ranks are not next to it)\n");
}

static void print_frame(const struct rank_frames *frames, const struct rank_frame *frame,
			const char *path, struct report *report)
{
	struct out *out = report->out;
	const struct rank_row *row = &frame->row;
	size_t limit = report_rows(report, LIST_DEFAULT);

	text_clean(out, path, strlen(path));
	out_printf(out,
		   "\n%u rank%s; times in ms: mean %.3f, minimum %.3f (rank %u), maximum %.3f "
		   "(rank %u), imbalance %.1f%%, could go %.3f\n\n",
		   row->ranks, row->ranks == 1 ? "" : "s", rank_row_mean(row) / 1e6, row->min / 1e6,
		   row->min_rank, row->max / 1e6, row->max_rank, 100 * rank_row_imbalance(row),
		   rank_row_saving(row) / 1e6);
	write_bins(frame, report);
	if (!frame->count) {
		print_top(frame, report);
	} else if (frame->count <= 2 * limit) {
		print_list(frames, frame, "time", 0, frame->count, report);
	} else {
		print_list(frames, frame, "slowest", 0, limit, report);
		print_list(frames, frame, "fastest", frame->count - limit, frame->count, report);
	}
}

/* ------------------------------------------------------------------ JSON */

/* Arrays of equal length, the slowest rank first. */
static void write_columns(const struct rank_frames *frames, const struct rank_frame *frame,
			  struct json_writer *json)
{
	static const char *const keys[] = {"rank", "host", "time_ns"};

	json_key_object(json, "columns");
	for (size_t c = 0; c < ARRAY_LENGTH(keys); c++) {
		json_key_array(json, keys[c]);
		for (size_t i = 0; i < frame->count; i++)
			if (c == 1)
				json_text(json,
					  profile_text(frames->profile, frame->times[i].host));
			else
				json_uint64(json,
					    c ? frame->times[i].time_ns : frame->times[i].rank);
		json_end_array(json);
	}
	json_end_object(json);
}

static void json_frame(const struct rank_frames *frames, const struct rank_frame *frame,
		       const char *path, struct report *report)
{
	json_line_break(&report->json);
	json_begin_object(&report->json);
	json_key_text(&report->json, "path", path);
	rank_row_json(&frame->row, "_ns", &report->json);
	write_bins(frame, report);
	write_columns(frames, frame, &report->json);
	json_end_object(&report->json);
}

/* ------------------------------------------------------------------ --ranks-of */

static void write_frames(const void *context, struct report *report)
{
	const struct rank_frames *frames = context;
	bool is_text = report->format == REPORT_TEXT;

	if (report->format == REPORT_CSV)
		begin_ranks(report, NULL, true);
	if (report->format == REPORT_JSON) {
		json_key_uint64(&report->json, "more", frames->more);
		json_key_array(&report->json, "frames");
	}
	for (size_t f = 0; f < frames->count && !report->out->errnum; f++) {
		const struct rank_frame *frame = &frames->items[f];
		AUTO_FREE char *path = rank_path_for(frames->profile, frame->row.node, report);

		if (is_text && f)
			out_byte(report->out, '\n');
		if (is_text)
			print_frame(frames, frame, path, report);
		else if (report->format == REPORT_CSV)
			write_ranks(frames, frame, path, 0, frame->count, report);
		else
			json_frame(frames, frame, path, report);
	}
	if (is_text && frames->more)
		out_printf(report->out, "\n%zu more frames match; name one by its path\n",
			   frames->more);
	if (report->format == REPORT_JSON)
		json_end_array(&report->json);
}

int rank_frame_run(const struct options *options, struct input *input)
{
	struct rank_frames frames = {.names = options->style.names};
	struct proton_error err = {0};
	struct profile *profile = NULL;
	AT_END(rank_rows_fini) struct rank_rows rows = {0};
	int status = rank_input_job(input, true, "--ranks-of", &profile, &err);

	if (status == PROTON_OK) {
		frames.profile = profile;
		rank_rows_of_time(&rows, profile, "time/ns");
		status = choose_frames(&rows, options->query.ranks_of, &frames, &err);
	}
	if (status == PROTON_OK)
		status = fill_times(&frames, profile, input, &err);
	if (status == PROTON_OK)
		status = report_show(options, profile, write_frames, &frames);
	else if (err.text[0])
		message("%s", err.text);
	for (size_t f = 0; f < frames.count; f++)
		free(frames.items[f].times);
	free(frames.items);
	profile_free(profile);
	return status < 0 ? EXIT_BAD : status;
}
