/* Views for output formats: order of the nodes, names in paths, values by device. */
#include "export/export_view.h"

#include "base/array.h"
#include "export/bounds.h"
#include "format/csv_write.h"
#include "model/rollup.h"

uint32_t export_run_of(const struct export_numbers *numbers, uint32_t node)
{
	size_t count = ARRAY_COUNT_BEFORE(numbers->run_count, i, numbers->starts[i] <= node);

	return count ? (uint32_t)count - 1 : 0;
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

struct export_walk export_walk_begin(const struct export_view *view, struct out *out, int kind)
{
	return (struct export_walk){
		.view = view,
		.out = out,
		.kind = kind,
		.path = {.fd = -1, .limit = BOUNDS_PATH_BYTES},
		.name = OUT_IN_MEMORY,
	};
}

/* False for a character that ends a line or a name for some reader, or is invalid in text. */
static bool is_plain(uint32_t code)
{
	return code >= 0x20 && code != ';' && (code < 0x7f || code >= 0xa0) && code != 0x2028 &&
	       code != 0x2029 && code != UINT32_MAX;
}

static void write_path(struct export_walk *walk)
{
	struct export_level *level = &walk->levels[walk->level];
	struct out *path = &walk->path;
	struct out *name = &walk->name;

	path->length = walk->level ? level[-1].length : 0;
	if (path->length)
		out_byte(path, ';');
	name->length = 0;
	walk->view->write_name(name, walk->view, level->frame);
	/* A spreadsheet may split fields at a semicolon. */
	if (walk->kind == WALK_CSV && name->length && csv_is_formula(name->bytes, name->length))
		out_byte(path, '\'');
	text_write_escaped(path, name->bytes, name->length, is_plain);
	/* Without CSV, only the root's own path contains its name. */
	level->length = walk->level || walk->kind == WALK_CSV ? path->length : 0;
	if (out_is_over(path))
		out_fail_limit(walk->out);
	out_fail(walk->out, path->errnum ? path->errnum : name->errnum);
}

bool export_walk_next(struct export_walk *walk)
{
	if (walk->has_begun)
		walk->node = export_view_next(walk->view, walk->node, &walk->level);
	if (!walk->has_begun || walk->node) {
		walk->has_begun = true;
		if (array_reserve(&walk->levels, &walk->capacity, (size_t)walk->level + 1,
				  sizeof(*walk->levels))) {
			walk->levels[walk->level].frame =
				walk->view->profile->nodes[walk->node].frame;
			if (walk->kind != WALK_FRAMES)
				write_path(walk);
		} else {
			out_fail(walk->out, ENOMEM);
		}
		if (!walk->out->errnum)
			return true;
	}
	out_fini(&walk->path);
	out_fini(&walk->name);
	free(walk->levels);
	return false;
}

void export_device_name(const struct profile *profile, uint32_t device, struct out *out)
{
	out_text(out, profile_text(profile, profile->devices[device].type));
	out_byte(out, ' ');
	out_u64(out, profile->devices[device].id);
}

double *export_device_own(const struct export_view *view, const struct export_metric *metric,
			  uint32_t device, struct out *out)
{
	const struct profile *profile = view->profile;
	double *own = calloc(profile->node_count, sizeof(*own));

	out_fail(out, own ? 0 : ENOMEM);
	for (size_t i = 0; own && i < profile->node_count; i++) {
		const struct profile_kernel *kernel;

		for (uint32_t k = profile->nodes[i].first_kernel; k; k = kernel->next) {
			kernel = &profile->kernels[k];
			uint64_t value = metric->field == KERNEL_COUNT ? kernel->count
								       : kernel->total_ns;
			if (device == EXPORT_ALL_DEVICES || device == kernel->device)
				own[view->owner[i]] += (double)value;
		}
	}
	for (size_t i = 0; own && i < profile->node_count; i++)
		own[i] /= metric->per_unit;
	return own;
}

bool *export_used_devices(const struct export_view *view, size_t *count, struct out *out)
{
	const struct profile *profile = view->profile;
	bool *used = calloc(profile->device_count + 1, sizeof(*used));

	out_fail(out, used ? 0 : ENOMEM);
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
	uint32_t level = 0, node = 0;

	do {
		if (is_table || is_written(view, node))
			bytes += 2ull * level;
		node = export_view_next(view, node, &level);
	} while (node && bytes <= max);
	return bytes <= max ? PROTON_OK : bounds_refuse(view->profile, err);
}
