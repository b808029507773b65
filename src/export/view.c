/* The table of formats made of a view, and what they share. See view.h. */
#include "export/view.h"

#include <math.h>

#include "base/array.h"
#include "format/utf8.h"
#include "model/rollup.h"

static const struct export_view_format formats[] = {
	{"folded", "folded", "stacks for flamegraph.pl and inferno, one a line", false, true, true,
	 export_folded},
	{"csv", "csv", "a table, one frame a line", false, false, false, export_csv},
};

const struct export_view_format *export_view_format_at(size_t index)
{
	return index < ARRAY_LENGTH(formats) ? &formats[index] : NULL;
}

static uint32_t first_shown(const struct export_view *view, uint32_t node)
{
	while (node && !view->shown[node])
		node = view->profile->nodes[node].next_sibling;
	return node;
}

uint32_t export_view_next(const struct export_view *view, uint32_t node, uint32_t *level)
{
	const struct profile_node *nodes = view->profile->nodes;
	uint32_t next = first_shown(view, nodes[node].first_child);

	if (next) {
		++*level;
		return next;
	}
	while (node) {
		next = first_shown(view, nodes[node].next_sibling);
		if (next)
			return next;
		node = nodes[node].parent;
		--*level;
	}
	return 0;
}

void export_path_name(struct out *out, struct out *scratch, const struct export_view *view,
		      uint32_t frame)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0;
	size_t plain = 0;

	scratch->length = 0;
	view->write_name(scratch, view, frame);
	if (scratch->length == 0) {
		out_text(out, "<unnamed>");
		return;
	}
	while (at < scratch->length) {
		unsigned char byte = (unsigned char)scratch->bytes[at];
		size_t step = utf8_sequence(scratch->bytes + at, scratch->length - at);

		if (step && byte >= 0x20 && byte != 0x7f && byte != ';') {
			at += step;
			continue;
		}
		out_bytes(out, scratch->bytes + plain, at - plain);
		out_text(out, "\\x");
		out_byte(out, hex[byte >> 4]);
		out_byte(out, hex[byte & 15]);
		plain = ++at;
	}
	out_bytes(out, scratch->bytes + plain, at - plain);
}

double export_device_value(const struct export_view *view, const struct export_metric *metric,
			   uint32_t node, uint32_t device)
{
	const struct profile_kernel *kernels = view->profile->kernels;
	double sum = NAN;

	for (uint32_t i = view->profile->nodes[node].first_kernel; i; i = kernels[i].next) {
		uint64_t value = metric->field == KERNEL_COUNT ? kernels[i].count
							       : kernels[i].total_ns;

		if (kernels[i].device == device)
			sum = (isnan(sum) ? 0 : sum) + (double)value / metric->per_unit;
	}
	return sum;
}
