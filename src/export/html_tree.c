/* The tree of the HTML report: columns of small numbers, compressed. */
#include "export/html_tree.h"

#include <math.h>

#include "base/array.h"

#define SUM_MAX 0x1p53        /* the page's numbers are doubles */
#define OWN_MAX (SUM_MAX / 2) /* these are written with a sign */

/* ------------------------------------------------------------------ which frames */

static void number_nodes(struct html_tree *tree)
{
	const struct profile *profile = tree->view->profile;
	uint32_t level = 0, node = 0;

	do {
		uint32_t frame = profile->nodes[node].frame;

		tree->nodes[tree->count++] = node;
		if (tree->number_of_frame[frame] == UINT32_MAX) {
			tree->frames[tree->frame_count] = frame;
			tree->number_of_frame[frame] = (uint32_t)tree->frame_count++;
		}
	} while ((node = export_view_next(tree->view, node, &level)) != 0);
}

bool html_tree_init(struct html_tree *tree, const struct export_view *view)
{
	const struct profile *profile = view->profile;

	*tree = (struct html_tree){.view = view};
	html_bytes_init(&tree->bytes);
	tree->nodes = malloc(profile->node_count * sizeof(*tree->nodes));
	tree->own = malloc(profile->node_count * sizeof(*tree->own));
	tree->number_of_frame = malloc((profile->frame_count + 1) * sizeof(*tree->number_of_frame));
	tree->frames = malloc((profile->frame_count + 1) * sizeof(*tree->frames));
	tree->per = calloc(view->metric_count + 1, sizeof(*tree->per));
	if (!tree->nodes || !tree->own || !tree->number_of_frame || !tree->frames || !tree->per)
		return false;
	memset(tree->number_of_frame, 0xff, profile->frame_count * sizeof(*tree->number_of_frame));
	number_nodes(tree);
	return true;
}

void html_tree_fini(struct html_tree *tree)
{
	html_bytes_fini(&tree->bytes);
	FREE_ALL(tree->nodes, tree->own, tree->number_of_frame, tree->frames, tree->per);
}

/* ------------------------------------------------------------------ bytes */

void html_bytes_init(struct html_bytes *bytes)
{
	out_init(&bytes->plain, -1);
	out_init(&bytes->packed, -1);
	gzip_begin(&bytes->gzip, &bytes->packed);
}

static void put_bytes(struct html_bytes *bytes, const void *data, size_t length)
{
	out_bytes(&bytes->plain, data, length);
	gzip_give(&bytes->gzip, &bytes->plain, GZIP_PIECE_BYTES);
}

void html_put_number(struct html_bytes *bytes, uint64_t value)
{
	char digits[10];
	size_t length = 0;

	for (; value >= 128; value >>= 7)
		digits[length++] = (char)(value | 128);
	digits[length++] = (char)value;
	put_bytes(bytes, digits, length);
}

void html_bytes_fini(struct html_bytes *bytes)
{
	if (bytes->gzip.out)
		gzip_end(&bytes->gzip);
	out_fini(&bytes->plain);
	out_fini(&bytes->packed);
}

static void write_base64(struct json_writer *json, const struct out *bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *at = (const unsigned char *)bytes->bytes;
	AT_END(out_fini) struct out text = OUT_IN_MEMORY;

	out_byte(&text, '"');
	for (size_t i = 0; i < bytes->length; i += 3) {
		size_t left = bytes->length - i;
		uint32_t bits = (uint32_t)at[i] << 16 | (left > 1 ? at[i + 1] << 8 : 0) |
				(left > 2 ? at[i + 2] : 0);

		for (size_t digit = 0; digit < 4; digit++, bits <<= 6)
			out_byte(&text, digit <= left ? digits[bits >> 18 & 63] : '=');
	}
	out_byte(&text, '"');
	json_string_quoted(json, text.bytes, text.length);
	out_fail(json->out, bytes->errnum ? bytes->errnum : text.errnum);
}

void html_bytes_write(struct html_bytes *bytes, struct json_writer *json)
{
	gzip_give(&bytes->gzip, &bytes->plain, 0);
	gzip_end(&bytes->gzip);
	bytes->gzip.out = NULL;
	write_base64(json, &bytes->packed);
}

static void put_names(struct html_tree *tree)
{
	const struct export_view *view = tree->view;
	AT_END(out_fini) struct out names = OUT_IN_MEMORY;
	AT_END(out_fini) struct out name = OUT_IN_MEMORY;
	struct json_writer json;

	json_writer_init(&json, &names, false);
	json_begin_array(&json);
	for (size_t i = 0; i < tree->frame_count; i++) {
		name.length = 0;
		view->write_name(&name, view, tree->frames[i]);
		json_string(&json, name.bytes, name.length);
	}
	json_end_array(&json);
	out_fail(&tree->bytes.plain, names.errnum ? names.errnum : name.errnum);
	html_put_number(&tree->bytes, names.length);
	put_bytes(&tree->bytes, names.bytes, names.length);
}

static void put_shape(struct html_tree *tree)
{
	const struct profile *profile = tree->view->profile;
	uint32_t level = 0, node = 0;

	html_put_number(&tree->bytes, tree->count);
	do {
		uint32_t before = level;

		node = export_view_next(tree->view, node, &level);
		html_put_number(&tree->bytes, before + 1 - level);
	} while (node);
	for (size_t i = 0; i < tree->count; i++)
		html_put_number(&tree->bytes,
				tree->number_of_frame[profile->nodes[tree->nodes[i]].frame]);
}

/* ------------------------------------------------------------------ columns */

/* False if the values of the shown nodes times `per` are not integers. */
static bool are_integers(const struct html_tree *tree, const struct export_numbers *numbers,
			 double per)
{
	for (size_t i = 0; i < tree->count; i++) {
		double value = export_value(numbers, tree->nodes[i]);
		double integer = rint(value * per);

		if (!isnan(value) && !(integer / per == value && fabs(integer) < SUM_MAX))
			return false;
	}
	return true;
}

/* The factor that makes integers of the values; 0: none does. */
static double find_per(const struct html_tree *tree, const struct export_metric *metric,
		       const struct export_numbers *numbers)
{
	const double factors[] = {metric->per_unit, 1, 1e3, 1e6, 1e9};

	for (size_t i = 0; i < ARRAY_LENGTH(factors); i++)
		if (factors[i] >= 1 && are_integers(tree, numbers, factors[i]))
			return factors[i];
	return 0;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/*
 * The integer of each node. Where a parent has the sum of its children, what is left without them:
 * nothing in most nodes. Returns the common divisor of all; 0: one is too large.
 */
static uint64_t find_own(struct html_tree *tree, const struct export_numbers *numbers, double per,
			 bool has_sums)
{
	const struct profile_node *rows = tree->view->profile->nodes;
	uint64_t divisor = 0;

	memset(tree->own, 0, tree->view->profile->node_count * sizeof(*tree->own));
	for (size_t i = tree->count; i-- > 0;) {
		uint32_t node = tree->nodes[i];
		double value = export_value(numbers, node);
		int64_t inside = tree->own[node];
		int64_t sum = isnan(value) ? inside : (int64_t)rint(value * per);

		if (has_sums && i)
			tree->own[rows[node].parent] += sum;
		tree->own[node] = sum - inside;
		if (fabs((double)tree->own[node]) >= OWN_MAX || fabs((double)sum) >= SUM_MAX)
			return 0;
		if (divisor != 1)
			divisor = common_divisor(divisor, (uint64_t)llabs(tree->own[node]));
	}
	return divisor ? divisor : 1;
}

/* An integer per node: 0 for none, else 1 more than its zigzag code. */
static void put_integers(struct html_tree *tree, const struct export_numbers *numbers,
			 int64_t divisor)
{
	for (size_t i = 0; i < tree->count; i++) {
		int64_t own = tree->own[tree->nodes[i]] / divisor;

		if (isnan(export_value(numbers, tree->nodes[i])))
			html_put_number(&tree->bytes, 0);
		else
			html_put_number(&tree->bytes,
					((uint64_t)own << 1 ^ (uint64_t)(own >> 63)) + 1);
	}
}

/* The first bytes of all values, then the second ones: they are more alike. */
static void put_doubles(struct html_tree *tree, const struct export_numbers *numbers)
{
	for (int shift = 0; shift < 64; shift += 8) {
		for (size_t i = 0; i < tree->count; i++) {
			double value = export_value(numbers, tree->nodes[i]);

			put_bytes(&tree->bytes, &(char){(char)(bits_of_double(value) >> shift)}, 1);
		}
	}
}

static void put_column(struct html_tree *tree, struct json_writer *json,
		       const struct export_numbers *numbers, double per, bool has_sums)
{
	uint64_t divisor = per != 0 ? find_own(tree, numbers, per, has_sums) : 0;

	json_begin_object(json);
	json_key_text(json, "as", divisor ? "integers" : "doubles");
	if (divisor) {
		json_key_double(json, "per", per);
		json_key_uint64(json, "times", divisor);
		json_key_bool(json, "sums", has_sums);
		put_integers(tree, numbers, (int64_t)divisor);
	} else {
		put_doubles(tree, numbers);
	}
	json_end_object(json);
}

/* ------------------------------------------------------------------ ratios */

/* A metric that is one column divided by another: part / (whole / scale) / unit. */
struct ratio {
	size_t part, whole; /* metrics */
	double scale, unit;
};

static double divided(const struct html_tree *tree, const struct ratio *ratio, uint32_t node)
{
	const struct export_metric *metrics = tree->view->metrics;
	double part =
		rint(export_value(&metrics[ratio->part].total, node) * tree->per[ratio->part]);
	double whole =
		rint(export_value(&metrics[ratio->whole].total, node) * tree->per[ratio->whole]) /
		ratio->scale;

	return whole == 0 ? NAN : part / whole / ratio->unit;
}

/* True if the numbers equal the ratio, or without one the others. */
static bool is_same(const struct html_tree *tree, const struct export_numbers *numbers,
		    const struct ratio *ratio, const struct export_numbers *others)
{
	for (size_t i = 0; i < tree->count; i++) {
		double value = export_value(numbers, tree->nodes[i]);
		double other = ratio ? divided(tree, ratio, tree->nodes[i])
				     : export_value(others, tree->nodes[i]);

		if (value != other && !(isnan(value) && isnan(other)))
			return false;
	}
	return true;
}

/*
 * Averages and rates, bit by bit as the viewer computed them: they need no bytes, and the page has
 * them for sums of frames too.
 */
static bool find_ratio(const struct html_tree *tree, const struct export_numbers *numbers,
		       struct ratio *ratio)
{
	const struct export_view *view = tree->view;
	size_t first = 0;

	while (first < tree->count && !(fabs(export_value(numbers, tree->nodes[first])) > 0))
		first++;
	if (first == tree->count)
		return false;
	for (size_t whole = 0; whole < view->metric_count; whole++) {
		for (size_t part = 0;
		     view->metrics[whole].field != EXPORT_NO_FIELD && part < view->metric_count;
		     part++) {
			if (tree->per[part] == 0 || tree->per[whole] == 0)
				continue;
			for (int i = 0; i < 2; i++) {
				uint32_t node = tree->nodes[first];

				*ratio = (struct ratio){part, whole, i ? 1e9 : 1, 1};
				ratio->unit = pow(10, rint(log10(divided(tree, ratio, node) /
								 export_value(numbers, node))));
				if (ratio->unit > 0 && is_same(tree, numbers, ratio, NULL))
					return true;
			}
		}
	}
	return false;
}

static void put_metric(struct html_tree *tree, struct json_writer *json,
		       const struct export_metric *metric, double per)
{
	struct ratio ratio;

	json_key(json, "column");
	if (!metric->own.values && find_ratio(tree, &metric->total, &ratio)) {
		json_begin_object(json);
		json_key_text(json, "as", "ratio");
		json_key_uint64(json, "part", ratio.part);
		json_key_uint64(json, "whole", ratio.whole);
		json_key_double(json, "scale", ratio.scale);
		json_key_double(json, "unit", ratio.unit);
		json_end_object(json);
		return;
	}
	if (metric->is_inclusive || !metric->own.values) {
		per = per != 0 ? per : find_per(tree, metric, &metric->total);
		put_column(tree, json, &metric->total, per,
			   metric->is_inclusive && metric->own.values);
		return;
	}
	put_column(tree, json, &metric->total, find_per(tree, metric, &metric->total), false);
	if (!is_same(tree, &metric->total, NULL, &metric->own)) {
		json_key(json, "own");
		put_column(tree, json, &metric->own, find_per(tree, metric, &metric->own), false);
	}
}

/* ------------------------------------------------------------------ the whole */

void html_tree_write(struct html_tree *tree, struct json_writer *json)
{
	const struct export_view *view = tree->view;

	put_names(tree);
	put_shape(tree);
	json_key_array(json, "metrics");
	for (size_t m = 0; m < view->metric_count; m++)
		if (view->metrics[m].own.values && view->metrics[m].is_inclusive)
			tree->per[m] = find_per(tree, &view->metrics[m], &view->metrics[m].total);
	for (size_t m = 0; m < view->metric_count; m++) {
		const struct export_metric *metric = &view->metrics[m];

		json_line_break(json);
		json_begin_object(json);
		json_key_text(json, "name", metric->name);
		json_key_text(json, "unit", metric->unit);
		json_key_bool(json, "inclusive", metric->is_inclusive);
		json_key_bool(json, "adds", metric->own.values != NULL);
		json_key_uint64(json, "decimals", (uint64_t)metric->decimals);
		json_key_bool(json, "scientific", metric->is_scientific);
		put_metric(tree, json, metric, tree->per[m]);
		json_end_object(json);
	}
	json_end_array(json);
	json_key(json, "tree");
	html_bytes_write(&tree->bytes, json);
}
