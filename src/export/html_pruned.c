/* Frames that the HTML report does not draw: counts and values for searches. */
#include "export/html_pruned.h"

#include <math.h>
#include <stdlib.h>

#include "base/array.h"

/*
 * Resolution of numbers without a common divisor: 2^-40 of the maximum, far below the printed
 * digits.
 */
#define FINEST_SHARE 0x1p-40
#define EXACT_MAX 9e15

/* Consecutive frames below one drawn frame. */
struct run {
	uint32_t parent; /* index on the page */
	uint32_t count;
};

struct pruned {
	struct json_writer *json;
	const struct html_nodes *nodes;
	const struct html_numbers *numbers;
	struct out text;
	uint32_t *listed; /* nodes, depth first */
	uint32_t *levels; /* below the drawn frame */
	size_t listed_count;
	struct run *runs;
	size_t run_count, run_capacity;
	double *weights; /* per node */
	double *sums;    /* per frame on the page */
};

static void put_number(struct out *out, uint64_t value)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	while (value >= 32) {
		out_byte(out, digits[32 | (value & 31)]);
		value >>= 5;
	}
	out_byte(out, digits[value]);
}

static void begin_text(struct pruned *pruned)
{
	pruned->text.length = 0;
	out_byte(&pruned->text, '"');
}

static void end_text(struct pruned *pruned, const char *key)
{
	out_byte(&pruned->text, '"');
	json_key(pruned->json, key);
	json_string_quoted(pruned->json, pruned->text.bytes, pruned->text.length);
}

/* ------------------------------------------------------------------ order */

static bool list_nodes(struct pruned *pruned)
{
	const struct html_nodes *nodes = pruned->nodes;
	const struct profile_node *rows = nodes->view->profile->nodes;
	uint32_t drawn_level = 0; /* of the drawn ancestor of the listed frames */
	uint32_t level = 0;
	uint32_t node = 0;

	do {
		uint32_t parent = rows[node].parent;
		struct run *run;

		if (nodes->place[node] != HTML_LISTED)
			continue;
		if (nodes->place[parent] == HTML_DRAWN) {
			drawn_level = level - 1;
			parent = pruned->numbers->of_node[parent];
			run = pruned->run_count ? &pruned->runs[pruned->run_count - 1] : NULL;
			if (!run || run->parent != parent) {
				if (!array_reserve(&pruned->runs, &pruned->run_capacity,
						   pruned->run_count + 1, sizeof(*run)))
					return false;
				pruned->runs[pruned->run_count++] = (struct run){.parent = parent};
			}
		}
		pruned->runs[pruned->run_count - 1].count++;
		pruned->listed[pruned->listed_count] = node;
		pruned->levels[pruned->listed_count++] = level - drawn_level;
	} while ((node = export_view_next(nodes->view, node, &level)) != 0);
	return true;
}

static bool pruned_init(struct pruned *pruned)
{
	const struct html_nodes *nodes = pruned->nodes;
	size_t count = nodes->count[HTML_LISTED];

	out_init(&pruned->text, -1);
	pruned->listed = malloc((count + 1) * sizeof(*pruned->listed));
	pruned->levels = malloc((count + 1) * sizeof(*pruned->levels));
	pruned->weights = malloc(nodes->view->profile->node_count * sizeof(*pruned->weights));
	pruned->sums = malloc((pruned->numbers->frame_count + 1) * sizeof(*pruned->sums));
	return pruned->listed && pruned->levels && pruned->weights && pruned->sums &&
	       list_nodes(pruned);
}

static void pruned_fini(struct pruned *pruned)
{
	out_fini(&pruned->text);
	free(pruned->listed);
	free(pruned->levels);
	free(pruned->runs);
	free(pruned->weights);
	free(pruned->sums);
}

/* ------------------------------------------------------------------ columns of numbers */

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The weight at `i`: from the listed nodes, or from an array per frame. */
static double weight_at(const double *weights, const uint32_t *order, size_t i)
{
	return weights[order ? order[i] : i];
}

/* The greatest common unit of all weights. */
static double unit_of(const double *weights, const uint32_t *order, size_t count)
{
	static const double scales[] = {1, 1e3, 1e6, 1e9};
	double largest = 0;

	for (size_t i = 0; i < count; i++)
		largest = fmax(largest, weight_at(weights, order, i));
	for (size_t s = 0; s < ARRAY_LENGTH(scales) && largest * scales[s] < EXACT_MAX; s++) {
		uint64_t divisor = 0;
		size_t i = 0;

		for (; i < count; i++) {
			double value = weight_at(weights, order, i) * scales[s];

			if (fabs(value - rint(value)) > 1e-6)
				break;
			divisor = common_divisor(divisor, (uint64_t)rint(value));
		}
		if (i == count && divisor)
			return (double)divisor / scales[s];
	}
	return largest > 0 ? largest * FINEST_SHARE : 1;
}

static void write_weights(struct pruned *pruned, const double *weights, const uint32_t *order,
			  size_t count)
{
	double unit = unit_of(weights, order, count);
	uint64_t zeros = 0;

	json_begin_object(pruned->json);
	json_key_double(pruned->json, "unit", unit);
	begin_text(pruned);
	for (size_t i = 0; i <= count; i++) {
		uint64_t value = i < count ? (uint64_t)rint(weight_at(weights, order, i) / unit)
					   : 1;

		if (value && zeros) {
			put_number(&pruned->text, 0);
			put_number(&pruned->text, zeros - 1);
			zeros = 0;
		}
		if (value && i < count)
			put_number(&pruned->text, value);
		zeros += !value;
	}
	end_text(pruned, "values");
	json_end_object(pruned->json);
}

/* ------------------------------------------------------------------ parts of the object */

static void write_listed(struct pruned *pruned)
{
	const struct profile *profile = pruned->nodes->view->profile;

	begin_text(pruned);
	for (size_t i = 0; i < pruned->run_count; i++) {
		put_number(&pruned->text, pruned->runs[i].parent);
		put_number(&pruned->text, pruned->runs[i].count);
	}
	end_text(pruned, "runs");
	begin_text(pruned);
	for (size_t i = 0; i < pruned->listed_count; i++)
		put_number(&pruned->text, pruned->levels[i]);
	end_text(pruned, "levels");
	begin_text(pruned);
	for (size_t i = 0; i < pruned->listed_count; i++) {
		uint32_t frame = profile->nodes[pruned->listed[i]].frame;

		put_number(&pruned->text, pruned->numbers->of_frame[frame]);
	}
	end_text(pruned, "frames");
}

/*
 * Per drawn frame: the number of frames below it that are not drawn, without those of drawn
 * descendants.
 */
static void write_counts(struct pruned *pruned)
{
	const struct html_nodes *nodes = pruned->nodes;
	const struct profile *profile = nodes->view->profile;

	for (size_t i = 0; i < profile->node_count; i++)
		pruned->weights[i] = nodes->place[i] > HTML_DRAWN;
	for (size_t i = profile->node_count; i-- > 1;)
		if (nodes->place[i] > HTML_DRAWN)
			pruned->weights[profile->nodes[i].parent] += pruned->weights[i];
	begin_text(pruned);
	for (size_t i = 0; i < profile->node_count; i++)
		if (nodes->place[i] == HTML_DRAWN)
			put_number(&pruned->text, (uint64_t)pruned->weights[i]);
	end_text(pruned, "below");
}

/* Per frame that is only summed: their number, and whether one has descendants. */
static void write_summed_frames(struct pruned *pruned)
{
	const struct html_nodes *nodes = pruned->nodes;
	const struct profile *profile = nodes->view->profile;
	const uint32_t *of_frame = pruned->numbers->of_frame;
	size_t count = pruned->numbers->frame_count;

	memset(pruned->sums, 0, count * sizeof(*pruned->sums));
	for (size_t i = 0; i < profile->node_count; i++)
		if (nodes->place[i] >= HTML_SUMMED)
			pruned->sums[of_frame[profile->nodes[i].frame]]++;
	begin_text(pruned);
	for (size_t i = 0; i < count; i++)
		put_number(&pruned->text, (uint64_t)pruned->sums[i]);
	end_text(pruned, "summed_count");
	memset(pruned->sums, 0, count * sizeof(*pruned->sums));
	for (size_t i = 1; i < profile->node_count; i++)
		if (nodes->place[i] != HTML_HIDDEN)
			pruned->sums[of_frame[profile->nodes[profile->nodes[i].parent].frame]] = 1;
	begin_text(pruned);
	for (size_t i = 0; i < count; i++)
		put_number(&pruned->text, (uint64_t)pruned->sums[i]);
	end_text(pruned, "has_children");
}

static void write_summed(struct pruned *pruned)
{
	const struct html_nodes *nodes = pruned->nodes;
	const struct profile *profile = nodes->view->profile;
	const uint32_t *of_frame = pruned->numbers->of_frame;

	memset(pruned->sums, 0, pruned->numbers->frame_count * sizeof(*pruned->sums));
	for (size_t i = 0; i < profile->node_count; i++)
		if (nodes->place[i] == HTML_SUMMED)
			pruned->sums[of_frame[profile->nodes[i].frame]] += pruned->weights[i];
	json_key(pruned->json, "summed");
	write_weights(pruned, pruned->sums, NULL, pruned->numbers->frame_count);
}

/* Per drawn frame: the sum of its children that are not drawn, as numbers. */
static void write_below(struct pruned *pruned, const struct export_metric *metric)
{
	const struct html_nodes *nodes = pruned->nodes;
	const struct profile *profile = nodes->view->profile;
	struct export_numbers weights = {.values = pruned->weights};
	const struct export_numbers *numbers = metric->is_inclusive ? &metric->total : &weights;
	double *below = calloc(profile->node_count, sizeof(*below));

	json_key_array(pruned->json, "below");
	for (uint32_t i = 1; below && i < profile->node_count; i++)
		if (nodes->place[i] > HTML_DRAWN && !isnan(export_value(numbers, i)))
			below[profile->nodes[i].parent] += export_value(numbers, i);
	for (size_t i = 0; below && i < profile->node_count; i++)
		if (nodes->place[i] == HTML_DRAWN)
			json_double(pruned->json, below[i]);
	json_end_array(pruned->json);
	pruned->text.errnum |= below == NULL;
	free(below);
}

static void write_metric(struct pruned *pruned, const struct export_metric *metric)
{
	const struct html_nodes *nodes = pruned->nodes;

	json_line_break(pruned->json);
	if (!metric->own.values) {
		json_double(pruned->json, NAN);
		return;
	}
	html_weights(nodes->view, metric, pruned->weights);
	json_begin_object(pruned->json);
	write_below(pruned, metric);
	json_key(pruned->json, "listed");
	write_weights(pruned, pruned->weights, pruned->listed, pruned->listed_count);
	if (nodes->count[HTML_SUMMED])
		write_summed(pruned);
	json_end_object(pruned->json);
}

bool html_pruned_write(struct json_writer *json, const struct html_nodes *nodes,
		       const struct html_numbers *numbers)
{
	struct pruned pruned = {.json = json, .nodes = nodes, .numbers = numbers};
	size_t summed = nodes->count[HTML_SUMMED] + nodes->count[HTML_SUMMED_INSIDE];
	bool has_memory;

	if (!summed && !nodes->count[HTML_LISTED]) {
		json_double(json, NAN);
		return true;
	}
	has_memory = pruned_init(&pruned);
	json_begin_object(json);
	json_key_uint64(json, "count", summed + nodes->count[HTML_LISTED]);
	json_key_double(json, "share", nodes->drawn_share);
	json_key_uint64(json, "summed_frames", summed);
	if (has_memory) {
		write_listed(&pruned);
		write_counts(&pruned);
		if (summed)
			write_summed_frames(&pruned);
		json_key_array(json, "metrics");
		for (size_t m = 0; m < nodes->view->metric_count; m++)
			write_metric(&pruned, &nodes->view->metrics[m]);
		json_end_array(json);
	}
	json_end_object(json);
	has_memory = has_memory && !pruned.text.errnum;
	pruned_fini(&pruned);
	return has_memory;
}
