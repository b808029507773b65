/*
 * Folded stacks: "outer;inner;kernel 1234", one line per frame with an exclusive value, for
 * flamegraph.pl, inferno and speedscope. Stacks omit the root, which they all share; values of the
 * root itself are a stack with its name.
 *
 * Readers take the number after the last space, so a frame may contain spaces. For a comparison
 * there are two numbers, before and after, as difffolded.pl writes them.
 */
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "export/bounds.h"
#include "export/export_view.h"
#include "format/number.h"

struct folded {
	struct out path; /* of the current node, without root */
	struct out scratch;
	size_t *lengths; /* of the path, by level */
	size_t capacity;
};

static bool enter(struct folded *folded, const struct export_view *view, uint32_t node,
		  uint32_t level)
{
	size_t start = level > 1 ? folded->lengths[level - 1] : 0;

	if (!array_reserve(&folded->lengths, &folded->capacity, (size_t)level + 1,
			   sizeof(*folded->lengths)))
		return false;
	folded->path.length = start;
	if (start)
		out_byte(&folded->path, ';');
	export_path_name(&folded->path, &folded->scratch, view, view->profile->nodes[node].frame);
	/* Only the root's own stack contains its name. */
	folded->lengths[level] = level ? folded->path.length : 0;
	return !folded->path.errnum && !folded->scratch.errnum;
}

static void write_number(struct out *out, const struct export_metric *metric, uint32_t node)
{
	double value = export_value(&metric->own, node);
	char text[NUMBER_TEXT_BYTES];

	out_byte(out, ' ');
	if (!(value > 0) || !isfinite(value))
		out_byte(out, '0');
	else if (metric->own.exact)
		out_i64(out, export_exact(&metric->own, node));
	else
		out_bytes(out, text, number_from_double(value, text));
}

static void write_line(struct out *out, const struct folded *folded, struct export_view *view,
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
	out_bytes(out, folded->path.bytes, folded->path.length);
	for (size_t m = 0; m < view->metric_count; m++)
		write_number(out, &view->metrics[m], node);
	out_byte(out, '\n');
}

int export_folded(struct export_view *view, struct out *out, struct proton_error *err)
{
	struct folded folded = {0};
	bool has_memory = true;
	bool is_too_long;
	uint32_t level = 0;
	uint32_t node = 0;

	out_init(&folded.path, -1);
	out_init(&folded.scratch, -1);
	folded.path.limit = BOUNDS_PATH_BYTES;
	do {
		has_memory = enter(&folded, view, node, level);
		if (has_memory)
			write_line(out, &folded, view, node);
		node = export_view_next(view, node, &level);
	} while (node && has_memory && !out->errnum);
	is_too_long = out_is_over(&folded.path);
	out_fini(&folded.path);
	out_fini(&folded.scratch);
	free(folded.lengths);
	if (is_too_long)
		return bounds_refuse(view->profile, err);
	return has_memory ? PROTON_OK : err_nomem(err);
}
