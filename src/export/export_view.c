/* Views for output formats: order of the nodes, names in paths, values by device. */
#include "export/export_view.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/printable.h"
#include "export/bounds.h"
#include "model/rollup.h"

uint32_t export_run_of(const struct export_numbers *numbers, uint32_t node)
{
	uint32_t low = 0;
	uint32_t high = numbers->run_count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (numbers->starts[middle] <= node)
			low = middle;
		else
			high = middle;
	}
	return low;
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

/* A character that ends a line or a name for some reader, or is invalid in text. */
static bool is_separator(uint32_t code)
{
	return code < 0x20 || code == ';' || (code >= 0x7f && code < 0xa0) || code == 0x2028 ||
	       code == 0x2029 || code == UINT32_MAX;
}

void export_path_name(struct out *out, struct out *scratch, const struct export_view *view,
		      uint32_t frame)
{
	size_t at = 0;
	size_t plain = 0;

	scratch->length = 0;
	view->write_name(scratch, view, frame);
	if (scratch->length == 0) {
		out_text(out, "<unnamed>");
		return;
	}
	while (at < scratch->length) {
		uint32_t code;
		size_t step = utf8_decode(scratch->bytes + at, scratch->length - at, &code);

		if (!is_separator(code)) {
			at += step;
			continue;
		}
		out_bytes(out, scratch->bytes + plain, at - plain);
		for (plain = at + step; at < plain; at++) {
			char escape[PRINTABLE_ESCAPE_BYTES];

			printable_escape((unsigned char)scratch->bytes[at], escape);
			out_bytes(out, escape, sizeof(escape));
		}
	}
	out_bytes(out, scratch->bytes + plain, at - plain);
}

double *export_device_own(const struct export_view *view, const struct export_metric *metric,
			  uint32_t device)
{
	const struct profile *profile = view->profile;
	double *own = calloc(profile->node_count, sizeof(*own));

	for (size_t i = 0; own && i < profile->node_count; i++) {
		const struct profile_kernel *kernel;

		for (uint32_t k = profile->nodes[i].first_kernel; k; k = kernel->next) {
			uint64_t value;

			kernel = &profile->kernels[k];
			value = metric->field == KERNEL_COUNT ? kernel->count : kernel->total_ns;
			if (device == EXPORT_ALL_DEVICES || device == kernel->device)
				own[view->owner[i]] += (double)value;
		}
	}
	for (size_t i = 0; own && i < profile->node_count; i++)
		own[i] /= metric->per_unit;
	return own;
}

bool *export_used_devices(const struct export_view *view, size_t *count)
{
	const struct profile *profile = view->profile;
	bool *used = calloc(profile->device_count + 1, sizeof(*used));

	*count = 0;
	for (size_t i = 0; used && i < profile->node_count; i++) {
		uint32_t k = profile->nodes[i].first_kernel;

		for (; k; k = profile->kernels[k].next) {
			*count += !used[profile->kernels[k].device];
			used[profile->kernels[k].device] = true;
		}
	}
	return used;
}

static bool is_written(const struct export_view *view, uint32_t node)
{
	for (size_t m = 0; m < view->metric_count; m++) {
		const struct export_numbers *own = &view->metrics[m].own;

		if (own->values && export_value(own, node) > 0)
			return true;
	}
	return false;
}

int export_check_paths(const struct export_view *view, bool is_table, struct proton_error *err)
{
	uint64_t max = bounds_output(view->profile);
	uint64_t bytes = 0;
	uint32_t level = 0;
	uint32_t node = 0;

	do {
		if (is_table || is_written(view, node))
			bytes += 2ull * level;
		node = export_view_next(view, node, &level);
	} while (node && bytes <= max);
	return bytes <= max ? PROTON_OK : bounds_refuse(view->profile, err);
}
