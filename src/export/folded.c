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
	for (size_t m = 0; m < view->metric_count; m++) {
		const struct export_numbers *own = &view->metrics[m].own;
		double value = export_value(own, node);

		out_byte(out, ' ');
		if (!(value > 0) || !isfinite(value))
			out_byte(out, '0');
		else if (own->exact)
			out_i64(out, export_exact(own, node));
		else
			csv_number(out, value);
	}
	out_byte(out, '\n');
}

void export_folded(struct export_view *view, struct out *out)
{
	struct export_walk walk = export_walk_begin(view, out, WALK_TEXTS);

	while (export_walk_next(&walk))
		write_line(out, &walk.path, view, walk.node);
}
