/*
 * Folded stacks: "outer;inner;kernel 1234", one line per frame with an exclusive value, for
 * flamegraph.pl, inferno and speedscope. Stacks omit the root, which they all share; values of the
 * root itself are a stack with its name.
 *
 * Readers take the number after the last space, so a frame may contain spaces. For a comparison
 * there are two numbers, before and after, as difffolded.pl writes them.
 */
#include <math.h>

#include "export/export_view.h"
#include "format/csv_write.h"

static void write_number(struct out *out, const struct export_metric *metric, uint32_t node)
{
	double value = export_value(&metric->own, node);

	out_byte(out, ' ');
	if (!(value > 0) || !isfinite(value))
		out_byte(out, '0');
	else if (metric->own.exact)
		out_i64(out, export_exact(&metric->own, node));
	else
		csv_number(out, value);
}

static void write_line(struct out *out, const struct out *path, struct export_view *view,
		       uint32_t node)
{
	bool is_any = false;

	for (size_t m = 0; m < view->metric_count; m++) {
		double value = export_value(&view->metrics[m].own, node);

		view->negative_count += value < 0;
		is_any |= value > 0 && isfinite(value);
	}
	if (!is_any)
		return;
	out_bytes(out, path->bytes, path->length);
	for (size_t m = 0; m < view->metric_count; m++)
		write_number(out, &view->metrics[m], node);
	out_byte(out, '\n');
}

int export_folded(struct export_view *view, struct out *out, struct proton_error *err)
{
	struct export_paths paths;

	export_paths_init(&paths, view, out, false);
	while (export_paths_next(&paths))
		write_line(out, &paths.path, view, paths.walk.node);
	return export_paths_fini(&paths, err);
}
