/*
 * CSV table: one line per frame with its path from the root, name, depth and devices, then each
 * metric. An additive metric has two columns, "NAME (inc)" and "NAME (exc)": the inclusive and the
 * exclusive value. Numbers have all digits, an empty field means no value, and fields are quoted as
 * in RFC 4180. Lines of an incomplete profile end with a field "partial", which is 1.
 */
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "export/bounds.h"
#include "export/export_view.h"
#include "format/csv_write.h"
#include "format/number.h"

struct csv {
	struct out *out;
	struct out path; /* of the current node */
	struct out scratch, field;
	size_t *lengths; /* of the path, by level */
	size_t capacity;
};

static void write_title(struct csv *csv, const char *name, const char *suffix)
{
	csv->field.length = 0;
	out_text(&csv->field, name);
	out_text(&csv->field, suffix);
	out_byte(csv->out, ',');
	csv_text(csv->out, csv->field.bytes, csv->field.length);
}

static void write_head(struct csv *csv, const struct export_view *view)
{
	out_text(csv->out, "path,name,depth,device");
	for (size_t m = 0; m < view->metric_count; m++) {
		const struct export_metric *metric = &view->metrics[m];
		bool has_two = metric->is_inclusive && metric->own.values;

		write_title(csv, metric->name, has_two ? " (inc)" : "");
		if (has_two)
			write_title(csv, metric->name, " (exc)");
	}
	out_text(csv->out, profile_is_partial(view->profile) ? ",partial\n" : "\n");
}

static void write_number(struct out *out, const struct export_numbers *numbers, uint32_t node)
{
	double value = export_value(numbers, node);
	char text[NUMBER_TEXT_BYTES];

	out_byte(out, ',');
	if (!isfinite(value))
		return;
	if (numbers->exact)
		out_i64(out, export_exact(numbers, node));
	else
		out_bytes(out, text, number_from_double(value, text));
}

static void write_word(struct out *out, const struct export_metric *metric, uint32_t node)
{
	out_byte(out, ',');
	if (metric->words && metric->word[node] != EXPORT_NO_WORD)
		csv_text(out, metric->words[metric->word[node]],
			 strlen(metric->words[metric->word[node]]));
}

/* Every device of a node once: "CUDA 0;CUDA 1". */
static void write_devices(struct csv *csv, const struct profile *profile, uint32_t node)
{
	const struct profile_kernel *kernels = profile->kernels;
	uint32_t first = profile->nodes[node].first_kernel;

	csv->field.length = 0;
	for (uint32_t i = first; i; i = kernels[i].next) {
		const struct profile_device *device = &profile->devices[kernels[i].device];
		uint32_t k = first;

		while (k != i && kernels[k].device != kernels[i].device)
			k = kernels[k].next;
		if (k != i)
			continue;
		if (csv->field.length)
			out_byte(&csv->field, ';');
		out_text(&csv->field, profile_text(profile, device->type));
		out_byte(&csv->field, ' ');
		out_u64(&csv->field, device->id);
	}
	out_byte(csv->out, ',');
	csv_text(csv->out, csv->field.bytes, csv->field.length);
}

static bool write_line(struct csv *csv, const struct export_view *view, uint32_t node,
		       uint32_t level)
{
	uint32_t frame = view->profile->nodes[node].frame;

	if (!array_reserve(&csv->lengths, &csv->capacity, (size_t)level + 1, sizeof(*csv->lengths)))
		return false;
	csv->path.length = level ? csv->lengths[level - 1] : 0;
	if (level)
		out_byte(&csv->path, ';');
	csv->field.length = 0;
	view->write_name(&csv->field, view, frame);
	/* A spreadsheet may split fields at a semicolon. */
	if (csv->field.length && csv_is_formula(csv->field.bytes, csv->field.length))
		out_byte(&csv->path, '\'');
	export_path_name(&csv->path, &csv->scratch, view, frame);
	csv->lengths[level] = csv->path.length;
	if (csv->path.errnum || csv->scratch.errnum || csv->field.errnum)
		return false;
	csv_quoted(csv->out, csv->path.bytes, csv->path.length);
	out_byte(csv->out, ',');
	csv_text(csv->out, csv->field.bytes, csv->field.length);
	out_byte(csv->out, ',');
	out_u64(csv->out, level);
	write_devices(csv, view->profile, node);
	for (size_t m = 0; m < view->metric_count; m++) {
		const struct export_metric *metric = &view->metrics[m];

		if (metric->total.values)
			write_number(csv->out, &metric->total, node);
		else
			write_word(csv->out, metric, node);
		if (metric->is_inclusive && metric->own.values)
			write_number(csv->out, &metric->own, node);
	}
	out_text(csv->out, profile_is_partial(view->profile) ? ",1\n" : "\n");
	return true;
}

int export_csv(struct export_view *view, struct out *out, struct proton_error *err)
{
	struct csv csv = {.out = out};
	bool has_memory = true;
	bool is_too_long;
	uint32_t level = 0;
	uint32_t node = 0;

	out_init(&csv.path, -1);
	out_init(&csv.scratch, -1);
	out_init(&csv.field, -1);
	csv.path.limit = BOUNDS_PATH_BYTES;
	write_head(&csv, view);
	do {
		has_memory = write_line(&csv, view, node, level);
		node = export_view_next(view, node, &level);
	} while (node && has_memory && !out->errnum);
	is_too_long = out_is_over(&csv.path);
	out_fini(&csv.path);
	out_fini(&csv.scratch);
	out_fini(&csv.field);
	free(csv.lengths);
	if (is_too_long)
		return bounds_refuse(view->profile, err);
	return has_memory ? PROTON_OK : err_nomem(err);
}
