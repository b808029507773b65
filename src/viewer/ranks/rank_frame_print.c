/* --ranks-of as text, with a histogram over the ranks, CSV and JSON. */
#include "viewer/ranks/rank_frame_print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/ranks.h"
#include "viewer/print/printable_text.h"
#include "viewer/print/xalloc.h"
#include "viewer/ranks/rank_report.h"

#define BINS_MAX 16u
#define BAR_COLUMNS 40u
#define LIST_DEFAULT 8u

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

void rank_frame_write(const void *frames, struct report *report)
{
	if (report->format == REPORT_TEXT)
		print_frames(frames, report->out);
	else if (report->format == REPORT_CSV)
		write_csv(frames, report);
	else
		write_json(frames, &report->json);
}
