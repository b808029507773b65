/* Views for output formats: order of the nodes, names in paths, values by device. */
#include "export/export_view.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/buf.h"
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

void export_walk_init(struct export_walk *walk, const struct export_view *view, struct out *out)
{
	*walk = (struct export_walk){.view = view, .out = out};
}

bool export_walk_next(struct export_walk *walk)
{
	if (walk->has_begun)
		walk->node = export_view_next(walk->view, walk->node, &walk->level);
	if ((walk->has_begun && !walk->node) || walk->out->errnum)
		return false;
	walk->has_begun = true;
	if (!array_reserve(&walk->frames, &walk->capacity, (size_t)walk->level + 1,
			   sizeof(*walk->frames))) {
		walk->is_out_of_memory = true;
		return false;
	}
	walk->frames[walk->level] = walk->view->profile->nodes[walk->node].frame;
	return true;
}

void export_walk_fini(struct export_walk *walk)
{
	free(walk->frames);
}

/* False for a character that ends a line or a name for some reader, or is invalid in text. */
static bool is_plain(uint32_t code)
{
	return code >= 0x20 && code != ';' && (code < 0x7f || code >= 0xa0) && code != 0x2028 &&
	       code != 0x2029 && code != UINT32_MAX;
}

void export_paths_init(struct export_paths *paths, const struct export_view *view, struct out *out,
		       bool is_csv)
{
	*paths = (struct export_paths){.is_csv = is_csv};
	export_walk_init(&paths->walk, view, out);
	out_init(&paths->path, -1);
	out_init(&paths->name, -1);
	paths->path.limit = BOUNDS_PATH_BYTES;
}

bool export_paths_next(struct export_paths *paths)
{
	struct export_walk *walk = &paths->walk;
	struct out *path = &paths->path;
	struct out *name = &paths->name;
	uint32_t level;

	if (!export_walk_next(walk))
		return false;
	level = walk->level;
	if (!array_reserve(&paths->lengths, &paths->capacity, (size_t)level + 1,
			   sizeof(*paths->lengths))) {
		walk->is_out_of_memory = true;
		return false;
	}
	path->length = level ? paths->lengths[level - 1] : 0;
	if (path->length)
		out_byte(path, ';');
	name->length = 0;
	walk->view->write_name(name, walk->view, walk->frames[level]);
	/* A spreadsheet may split fields at a semicolon. */
	if (paths->is_csv && name->length && csv_is_formula(name->bytes, name->length))
		out_byte(path, '\'');
	text_write_escaped(path, name->bytes, name->length, is_plain);
	/* Without CSV, only the root's own path contains its name. */
	paths->lengths[level] = level || paths->is_csv ? path->length : 0;
	if (path->errnum || name->errnum)
		walk->is_out_of_memory = true;
	return !walk->is_out_of_memory;
}

int export_paths_fini(struct export_paths *paths, struct proton_error *err)
{
	bool is_too_long = out_is_over(&paths->path);

	out_fini(&paths->path);
	out_fini(&paths->name);
	free(paths->lengths);
	export_walk_fini(&paths->walk);
	if (is_too_long)
		return bounds_refuse(paths->walk.view->profile, err);
	return paths->walk.is_out_of_memory ? err_nomem(err) : PROTON_OK;
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
