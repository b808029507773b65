/*
 * CSV table: one line per frame with its path from the root, name, depth and devices, then each
 * metric. An additive metric has two columns, "NAME (inc)" and "NAME (exc)": the inclusive and the
 * exclusive value. Numbers have all digits, an empty field means no value, and fields are quoted as
 * in RFC 4180. Lines of an incomplete profile end with a field "partial", which is 1.
 */
#include <math.h>

#include "base/array.h"
#include "export/export_view.h"
#include "format/csv_write.h"

struct csv {
	struct out *out;
	struct out field;
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
	ARRAY_EACH(metric, view->metrics, view->metric_count) {
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

	out_byte(out, ',');
	if (numbers->exact && isfinite(value))
		out_i64(out, export_exact(numbers, node));
	else
		csv_number(out, value);
}

/* Every device of a node once: "CUDA 0;CUDA 1". */
static void write_devices(struct csv *csv, const struct profile *profile, uint32_t node)
{
	const struct profile_kernel *kernels = profile->kernels;
	uint32_t first = profile->nodes[node].first_kernel;

	csv->field.length = 0;
	for (uint32_t i = first; i; i = kernels[i].next) {
		uint32_t k = first;

		while (k != i && kernels[k].device != kernels[i].device)
			k = kernels[k].next;
		if (k != i)
			continue;
		if (csv->field.length)
			out_byte(&csv->field, ';');
		export_device_name(profile, kernels[i].device, &csv->field);
	}
	out_byte(csv->out, ',');
	csv_text(csv->out, csv->field.bytes, csv->field.length);
}

static void write_line(struct csv *csv, const struct export_walk *walk)
{
	const struct export_view *view = walk->view;
	uint32_t node = walk->node;

	csv_marked(csv->out, walk->path.bytes, walk->path.length);
	out_byte(csv->out, ',');
	csv_text(csv->out, walk->name.bytes, walk->name.length);
	out_byte(csv->out, ',');
	out_u64(csv->out, walk->level);
	write_devices(csv, view->profile, node);
	ARRAY_EACH(metric, view->metrics, view->metric_count) {
		uint32_t word = metric->words ? metric->word[node] : EXPORT_NO_WORD;

		if (metric->total.values)
			write_number(csv->out, &metric->total, node);
		else
			out_byte(csv->out, ',');
		if (!metric->total.values && word != EXPORT_NO_WORD)
			csv_text(csv->out, metric->words[word], strlen(metric->words[word]));
		if (metric->is_inclusive && metric->own.values)
			write_number(csv->out, &metric->own, node);
	}
	out_text(csv->out, profile_is_partial(view->profile) ? ",1\n" : "\n");
	out_fail(csv->out, csv->field.errnum);
}

void export_csv(struct export_view *view, struct out *out)
{
	struct csv csv = {.out = out, .field = OUT_IN_MEMORY};
	struct export_walk walk = export_walk_begin(view, out, WALK_CSV);

	write_head(&csv, view);
	while (export_walk_next(&walk))
		write_line(&csv, &walk);
	out_fini(&csv.field);
}
