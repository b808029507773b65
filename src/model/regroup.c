/* Regrouping of a profile: flat tables and bottom-up trees. */
#include "model/regroup.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/slice.h"
#include "model/merge.h"

#define NO_FRAME UINT32_MAX
/*
 * A chain of n kernels has n * n / 2 callers. This limits the number of steps; a step that makes a
 * new node counts as several.
 */
#define CALLERS_BUDGET ((uint64_t)1 << 22)
#define CALLERS_BUDGET_PER_NODE 512u
#define NEW_CALLER_COST 16u

/* What decides about the group of a node, at or above it. */
struct inner {
	uint32_t frame; /* the innermost source frame, layer or operator, or NO_FRAME */
	bool is_backward;
	bool is_over; /* names below a kernel are its own; no layer is below an operator */
};

struct regroup {
	const struct profile *source;
	struct profile *target;
	struct merge *merge;
	uint64_t budget;          /* of steps to callers */
	uint32_t *placed;         /* by node: where its kernels are; NULL: not asked for */
	struct inner *inner;      /* by node */
	struct hash_table places; /* file, or layer or operator -> node of the target */
	struct out name;
};

/* ------------------------------------------------------------------ layers and operators */

/* "AddmmBackward0": the name of autograd for a node, or for a Function of the program. */
static bool is_autograd_node(struct slice name)
{
	static const char end[] = "Backward";
	size_t length = name.length;

	while (length > 0 && name.at[length - 1] >= '0' && name.at[length - 1] <= '9')
		length--;
	return length >= sizeof(end) &&
	       memcmp(name.at + length - (sizeof(end) - 1), end, sizeof(end) - 1) == 0;
}

/* The operators in a frame of compiled code, "<h, gelu: aten.addmm, aten.gelu>"; empty: none. */
static struct slice compiled_operators(struct slice name)
{
	if (name.length < 2 || name.at[0] != '<' || slice_starts(name, "<in "))
		return (struct slice){0};

	struct slice list = slice_between(name.at + 1, slice_end(name) - 1);
	const char *colon = memmem(list.at, list.length, ": ", 2);

	if (colon)
		list = slice_between(colon + 2, slice_end(list));

	struct slice rest = list;
	struct slice first = slice_take_until(&rest, ',');

	return memchr(first.at, '.', first.length) ? list : (struct slice){0};
}

/* "aten::addmm", with a namespace in lower case. */
static bool is_operator(struct slice name)
{
	size_t space = strspn(name.at, "abcdefghijklmnopqrstuvwxyz0123456789_");

	return (space > 0 && strncmp(name.at + space, "::", 2) == 0) ||
	       compiled_operators(name).length > 0;
}

/*
 * A profile does not tell modules from scopes, and operators from both: their names do. So older
 * files, other formats and scopes that the program has for its layers are grouped, too.
 */
static bool decides(struct inner *inner, struct slice name, enum regroup_by by)
{
	if (by == REGROUP_OPERATOR || by == REGROUP_SHAPE)
		return is_operator(name) || (is_autograd_node(name) && inner->frame == NO_FRAME);
	inner->is_over = is_operator(name);
	return !inner->is_over && name.length > 0 && name.at[0] != '<' && !is_autograd_node(name);
}

static void find_inner(struct regroup *regroup, enum regroup_by by)
{
	const struct profile *source = regroup->source;

	regroup->inner = calloc(source->node_count, sizeof(*regroup->inner));
	if (!regroup->inner) {
		regroup->target->out_of_memory = true;
		return;
	}
	regroup->inner[0].frame = NO_FRAME;
	for (uint32_t i = 1; i < source->node_count; i++) {
		const struct profile_node *node = &source->nodes[i];
		const struct row_frame *frame = &source->frames[node->frame];
		struct inner *inner = &regroup->inner[i];

		*inner = regroup->inner[node->parent];
		if (by == REGROUP_FILE || by == REGROUP_MODULE) {
			if (frame->kind == FRAME_SOURCE)
				inner->frame = node->frame;
			continue;
		}
		inner->is_over |= frame->kind == FRAME_KERNEL;
		if (inner->is_over || frame->kind != FRAME_NAME)
			continue;
		inner->is_backward |= profile_is_scope(source, i, "<backward>");
		if (decides(inner, slice_of(profile_text(source, frame->name)), by))
			inner->frame = node->frame;
	}
}

static uint32_t named_child(struct regroup *regroup, const char *name)
{
	return merge_child_named(regroup->merge, 0, name);
}

/* One group for the backward kernels of each scope, not one for all scopes. */
static uint32_t backward_of(struct regroup *regroup, uint32_t node)
{
	const struct profile *source = regroup->source;
	char frame[256];
	char name[280];

	profile_frame_text(source, source->nodes[node].frame, frame, sizeof(frame));
	snprintf(name, sizeof(name), "%s <backward>", frame);
	return named_child(regroup, name);
}

static uint32_t scope_of(struct regroup *regroup, uint32_t node)
{
	const struct profile *source = regroup->source;
	const struct profile_node *row = &source->nodes[node];
	uint32_t scope = !row->first_kernel && node ? node : row->parent;
	bool is_below = false;

	if (!scope)
		return named_child(regroup, "(no scope)");
	row = &source->nodes[scope];
	while (row->parent && profile_is_scope(source, scope, "<backward>")) {
		scope = row->parent;
		row = &source->nodes[scope];
		is_below = true;
	}
	return is_below ? backward_of(regroup, scope) : merge_child(regroup->merge, 0, row->frame);
}

/* "/usr/lib/python3/site-packages/torch/nn/functional.py" -> "torch.nn.functional". */
static void write_module(struct out *out, const char *file)
{
	static const char *const roots[] = {"/site-packages/", "/dist-packages/"};
	const char *slash = strrchr(file, '/');
	const char *start = slash ? slash + 1 : file;
	const char *end;

	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		const char *found = strstr(file, roots[i]);

		if (found)
			start = found + strlen(roots[i]);
	}
	end = start + strlen(start);
	if (end - start > 3 && strcmp(end - 3, ".py") == 0)
		end -= 3;
	if (end - start > 9 && memcmp(end - 9, "/__init__", 9) == 0)
		end -= 9;
	for (const char *p = start; p < end; p++)
		out_byte(out, *p == '/' ? '.' : *p);
}

/* The group with the name that was written, which is remembered by `key`. */
static uint32_t written_child(struct regroup *regroup, uint64_t key)
{
	out_byte(&regroup->name, '\0');
	uint32_t place = regroup->name.errnum ? 0 : named_child(regroup, regroup->name.bytes);
	if (!place || !hash_table_add(&regroup->places, key, place))
		regroup->target->out_of_memory = true;
	regroup->name.length = 0;
	return place;
}

static uint32_t source_of(struct regroup *regroup, uint32_t node, enum regroup_by by)
{
	uint32_t frame = regroup->inner[node].frame;

	if (frame == NO_FRAME)
		return named_child(regroup, "(no source)");
	uint64_t key = hash_u64(regroup->source->frames[frame].file);
	uint32_t place = hash_table_find(&regroup->places, key);
	if (place)
		return place;
	const char *file = profile_text(regroup->source, regroup->source->frames[frame].file);
	if (by == REGROUP_MODULE)
		write_module(&regroup->name, file);
	else
		out_text(&regroup->name, file);
	return written_child(regroup, key);
}

/* As PyTorch writes them, "aten::addmm": compiled code has "aten.addmm (f32[8x16])". */
static void write_operators(struct out *out, struct slice name, bool has_shapes)
{
	struct slice compiled = compiled_operators(name);
	const char *shapes = compiled.length ? memmem(compiled.at, compiled.length, " (", 2) : NULL;
	bool is_prefix = true;

	if (shapes && !has_shapes)
		compiled.length = (size_t)(shapes - compiled.at);
	if (compiled.length == 0)
		out_bytes(out, name.at, name.length);
	for (size_t i = 0; i < compiled.length; i++) {
		if (compiled.at[i] == '.' && is_prefix && i > 0 && compiled.at[i - 1] != ' ')
			out_text(out, "::");
		else
			out_byte(out, compiled.at[i]);
		is_prefix = compiled.at[i] == ',' || (is_prefix && compiled.at[i] != '.');
	}
}

/* "layers.0.mlp.up" -> "layers.0" with two levels. */
static void write_layer(struct out *out, struct slice name, size_t levels, bool is_backward)
{
	const char *end = name.at;

	for (; end < slice_end(name); end++)
		if (*end == '.' && --levels == 0)
			break;
	out_bytes(out, name.at, (size_t)(end - name.at));
	if (is_backward)
		out_text(out, " <backward>");
}

static uint32_t layer_of(struct regroup *regroup, uint32_t node, enum regroup_by by, size_t levels)
{
	const struct inner *inner = &regroup->inner[node];
	bool is_backward = by == REGROUP_LAYER && inner->is_backward;
	uint64_t key = hash_u64((uint64_t)inner->frame << 1 | is_backward);
	uint32_t place = hash_table_find(&regroup->places, key);
	struct slice name;

	if (place)
		return place;
	if (inner->frame == NO_FRAME)
		name = slice_of(by == REGROUP_LAYER ? "(no layer)" : "(no operator)");
	else
		name = slice_of(
			profile_text(regroup->source, regroup->source->frames[inner->frame].name));
	if (by == REGROUP_LAYER)
		write_layer(&regroup->name, name, levels, is_backward);
	else
		write_operators(&regroup->name, name, by == REGROUP_SHAPE);
	return written_child(regroup, key);
}

static uint32_t device_of(struct regroup *regroup, uint32_t index)
{
	const struct profile *source = regroup->source;
	const struct row_device *device = &source->devices[index];
	char name[128];

	snprintf(name, sizeof(name), "%.100s %u", profile_text(source, device->type), device->id);
	return named_child(regroup, name);
}

/* Adds what a node has; its kernels if they are not added by device. */
static void add_rows(struct regroup *regroup, uint32_t node, uint32_t group)
{
	merge_values(regroup->merge, node, group);
	merge_kernels(regroup->merge, node, group);
	if (regroup->placed && regroup->source->nodes[node].first_kernel)
		regroup->placed[node] = group;
}

static void add_by_device(struct regroup *regroup, uint32_t node)
{
	const struct profile_kernel *kernels = regroup->source->kernels;
	uint32_t first = regroup->source->nodes[node].first_kernel;
	uint32_t longest = first;

	for (uint32_t k = first; k; k = kernels[k].next) {
		merge_kernel(regroup->merge, k, device_of(regroup, kernels[k].device));
		if (kernels[k].total_ns > kernels[longest].total_ns)
			longest = k;
	}
	if (!first)
		return;
	longest = device_of(regroup, kernels[longest].device);
	merge_values(regroup->merge, node, longest);
	if (regroup->placed)
		regroup->placed[node] = kernels[first].next ? PLACE_MANY : longest;
}

/* Adds a kernel and its callers. False: the budget is used up. */
static bool add_callers(struct regroup *regroup, uint32_t node, size_t levels)
{
	const struct profile *source = regroup->source;
	uint32_t place = merge_child(regroup->merge, 0, source->nodes[node].frame);
	uint32_t up = source->nodes[node].parent;

	for (size_t level = 0; up && level < levels; level++) {
		size_t before = regroup->target->node_count;

		place = merge_child(regroup->merge, place, source->nodes[up].frame);
		uint32_t cost = regroup->target->node_count > before ? NEW_CALLER_COST : 1;
		if (regroup->budget < cost)
			return false;
		regroup->budget -= cost;
		up = source->nodes[up].parent;
	}
	add_rows(regroup, node, place);
	return true;
}

static bool add_node_by(struct regroup *regroup, uint32_t node, enum regroup_by by, size_t levels)
{
	const struct profile_node *row = &regroup->source->nodes[node];

	switch (by) {
	case REGROUP_KERNEL:
		if (row->first_kernel)
			add_rows(regroup, node, merge_child(regroup->merge, 0, row->frame));
		break;
	case REGROUP_SCOPE:
		add_rows(regroup, node, scope_of(regroup, node));
		break;
	case REGROUP_FILE:
	case REGROUP_MODULE:
		add_rows(regroup, node, source_of(regroup, node, by));
		break;
	case REGROUP_LAYER:
	case REGROUP_OPERATOR:
	case REGROUP_SHAPE:
		add_rows(regroup, node, layer_of(regroup, node, by, levels));
		break;
	case REGROUP_DEVICE:
		add_by_device(regroup, node);
		break;
	case REGROUP_CALLERS:
		return !row->first_kernel || add_callers(regroup, node, levels);
	}
	return true;
}

int profile_regroup(const struct profile *profile, enum regroup_by by, size_t levels,
		    const bool *keeps, uint32_t *places, struct profile **out,
		    struct proton_error *err)
{
	struct profile *target = profile_new();
	struct regroup regroup = {
		.source = profile,
		.target = target,
		.merge = target ? merge_new(target) : NULL,
		.placed = places,
		.budget = CALLERS_BUDGET + CALLERS_BUDGET_PER_NODE * profile->node_count,
	};
	bool is_whole = true;

	if (!regroup.merge) {
		profile_free(target);
		return err_nomem(err);
	}
	if (places)
		memset(places, 0xff, profile->node_count * sizeof(*places));
	out_init(&regroup.name, -1);
	merge_source(regroup.merge, profile);
	merge_about(regroup.merge);
	if (by >= REGROUP_FILE && by <= REGROUP_SHAPE)
		find_inner(&regroup, by);
	for (uint32_t i = 0; i < profile->node_count && is_whole && !target->out_of_memory; i++) {
		const struct profile_node *row = &profile->nodes[i];

		if ((!keeps || keeps[i]) && (row->first_value || row->first_kernel))
			is_whole = add_node_by(&regroup, i, by, levels);
	}
	merge_free(regroup.merge);
	out_fini(&regroup.name);
	hash_table_fini(&regroup.places);
	free(regroup.inner);
	if (is_whole && !target->out_of_memory) {
		*out = target;
		return PROTON_OK;
	}
	is_whole |= target->out_of_memory;
	profile_free(target);
	return is_whole ? err_nomem(err)
			: err_set(err, PROTON_E_RANGE,
				  "the callers of all kernels are too many frames for this "
				  "profile; show fewer levels of them (--depth)");
}
