/*
 * Loader of hatchet's nested lists.
 *
 * The tree is walked with a stack of open nodes. Data nested in a node (its frame, its metrics) has
 * a fixed depth and is read by plain functions. Three facts are known only later:
 *
 * - A node's name follows its children, so frames are set when a node closes.
 * - The inclusive names are on ROOT, which closes last (see settle.c).
 * - If a metric is "0" in one place and "0.5" in another, it is a double metric (see settle.c).
 */
#include "model/load_tree_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Splits "file:line@function" at the last possible place. */
static bool split_source(struct tree_loader *loader, const char *text, size_t length,
			 struct row_frame *frame)
{
	const char *end = text + length;
	const char *at = end;

	while ((at = memrchr(text, '@', (size_t)(at - text)))) {
		const char *digits = tree_number_before(text, at, &frame->line);

		if (!digits || digits - text < 2 || digits[-1] != ':' || at + 1 == end)
			continue;
		frame->kind = FRAME_SOURCE;
		frame->file = profile_string(loader->profile, text, (size_t)(digits - 1 - text));
		frame->name = profile_string(loader->profile, at + 1, (size_t)(end - at - 1));
		return true;
	}
	return false;
}

static bool read_frame(struct tree_loader *loader, struct open_node *open)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		bool is_name = tree_is_text(&token, "name");

		kind = token_next(loader->source, &token);
		if (is_name && kind == TOKEN_STRING) {
			open->has_frame = true;
			open->frame = (struct row_frame){.kind = FRAME_NAME};
			if (!split_source(loader, token.text, token.length, &open->frame)) {
				open->frame = (struct row_frame){.kind = FRAME_NAME};
				open->frame.name = tree_string(loader, &token);
			}
		} else if (!token_skip(loader->source, kind)) {
			return false;
		}
	}
	return !tree_has_failed(kind);
}

/* ------------------------------------------------------------------ devices */

/* Reads the five properties of a device. */
static bool read_device(struct tree_loader *loader, uint32_t index)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		struct row_device *device = index < profile->device_count ? &profile->devices[index]
									  : NULL;
		bool is_arch = tree_is_text(&token, "arch");
		uint64_t unused;
		uint64_t *number = !device                              ? &unused
				   : tree_is_text(&token, "clock_rate") ? &device->clock_khz
				   : tree_is_text(&token, "memory_clock_rate")
					   ? &device->memory_clock_khz
				   : tree_is_text(&token, "bus_width") ? &device->bus_width_bits
				   : tree_is_text(&token, "num_sms")   ? &device->processors
								       : &unused;

		kind = token_next(loader->source, &token);
		if (kind == TOKEN_STRING) {
			if (device && is_arch)
				device->arch = tree_string(loader, &token);
		} else if (!tree_u64(&token, number) && !token_skip(loader->source, kind)) {
			return false;
		}
	}
	return !tree_has_failed(kind);
}

/* {"0": {...}, "1": {...}} of one device type. */
static bool read_device_type(struct tree_loader *loader, uint32_t type)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t id;
		bool is_id = tree_device_id(token.text, token.length, &id);
		bool is_whole;

		kind = token_next(loader->source, &token);
		if (is_id && kind == TOKEN_OBJECT)
			is_whole = read_device(loader, profile_device(loader->profile, type, id));
		else
			is_whole = token_skip(loader->source, kind);
		if (!is_whole)
			return false;
	}
	return !tree_has_failed(kind);
}

static bool read_devices(struct tree_loader *loader)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t type = tree_string(loader, &token);
		bool is_whole;

		kind = token_next(loader->source, &token);
		is_whole = kind == TOKEN_OBJECT ? read_device_type(loader, type)
						: token_skip(loader->source, kind);
		if (!is_whole)
			return false;
	}
	return !tree_has_failed(kind);
}

/* ------------------------------------------------------------------ the tree */

static bool open_node(struct tree_loader *loader)
{
	struct open_node *open;
	uint32_t node = 0;

	if (!array_reserve(&loader->stack, &loader->stack_capacity, loader->depth + 1,
			   sizeof(*loader->stack))) {
		loader->profile->out_of_memory = true;
		return false;
	}
	if (loader->depth)
		node = profile_node(loader->profile, loader->stack[loader->depth - 1].node, 0);
	open = &loader->stack[loader->depth++];
	*open = (struct open_node){
		.node = node, .min_ns = KERNEL_TIME_UNKNOWN, .max_ns = KERNEL_TIME_UNKNOWN};
	return !loader->profile->out_of_memory;
}

/* Sets properties that were unknown while the node was open. */
static void close_node(struct tree_loader *loader)
{
	struct profile *profile = loader->profile;
	struct open_node *open = &loader->stack[--loader->depth];
	uint32_t first_kernel = profile->nodes[open->node].first_kernel;

	if (first_kernel) {
		struct profile_kernel *kernel = &profile->kernels[first_kernel];

		if (open->min_ns != KERNEL_TIME_UNKNOWN)
			kernel->min_ns = open->min_ns;
		if (open->max_ns != KERNEL_TIME_UNKNOWN)
			kernel->max_ns = open->max_ns;
		kernel->histogram = open->histogram;
		kernel->first_config = open->first_config;
	}
	if (!open->has_frame)
		open->frame.name = profile_string(profile, "<unknown>", 9);
	if (open->node == 0) {
		if (open->has_frame)
			profile->frames[0] =
				(struct row_frame){.kind = FRAME_ROOT, .name = open->frame.name};
		return;
	}
	if (open->frame.kind != FRAME_SOURCE)
		open->frame.kind = first_kernel ? FRAME_KERNEL : FRAME_NAME;
	profile->nodes[open->node].frame = profile_frame(profile, open->frame);
}

/* Reads the next member of the top node, or the next child in its list. */
static bool read_member(struct tree_loader *loader)
{
	struct open_node *open = &loader->stack[loader->depth - 1];
	struct token token;
	enum token_kind kind = token_next(loader->source, &token);
	bool is_children, is_frame, is_metrics, is_extras;

	if (tree_has_failed(kind))
		return false;
	if (open->is_in_children) {
		if (kind == TOKEN_OBJECT)
			return open_node(loader);
		if (kind != TOKEN_ARRAY_END)
			return token_skip(loader->source, kind);
		open->is_in_children = false;
		return true;
	}
	if (kind == TOKEN_OBJECT_END) {
		close_node(loader);
		return true;
	}
	is_children = tree_is_text(&token, "children");
	is_frame = tree_is_text(&token, "frame");
	is_metrics = tree_is_text(&token, "metrics");
	is_extras = tree_is_text(&token, "proton");
	kind = token_next(loader->source, &token);
	if (is_children && kind == TOKEN_ARRAY)
		return open->has_children = open->is_in_children = true;
	if (is_frame && kind == TOKEN_OBJECT)
		return read_frame(loader, open);
	if (is_metrics && kind == TOKEN_OBJECT)
		return tree_read_metrics(loader, open);
	if (is_extras && kind == TOKEN_OBJECT)
		return tree_read_extras(loader, open);
	return token_skip(loader->source, kind);
}

/* False if the tree has no end; *is_tree if the part that was read belongs to a tree. */
static bool read_root(struct tree_loader *loader, bool *is_tree)
{
	bool is_whole = open_node(loader);

	while (is_whole && loader->depth)
		is_whole = read_member(loader) && !loader->profile->out_of_memory;
	*is_tree = loader->stack && (loader->stack[0].has_frame || loader->stack[0].has_children);
	return is_whole && *is_tree;
}

/*
 * Reads the list: the tree, the devices, and optional further elements. False if truncated or
 * wrong.
 */
static bool read_list(struct tree_loader *loader, bool *is_tree)
{
	struct token token;
	enum token_kind kind = token_next(loader->source, &token);
	bool is_second = true;

	*is_tree = false;
	if (kind != TOKEN_ARRAY || token_next(loader->source, &token) != TOKEN_OBJECT)
		return false;
	if (!read_root(loader, is_tree))
		return false;
	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		if (is_second && kind == TOKEN_OBJECT) {
			if (!read_devices(loader))
				return false;
		} else if (!token_skip(loader->source, kind)) {
			return false;
		}
		is_second = false;
	}
	return token_next(loader->source, &token) == TOKEN_END;
}

/* ------------------------------------------------------------------ whole profiles */

static int fail_load(struct token_source *source, bool is_tree, struct proton_error *err)
{
	struct token token;

	if (token_next(source, &token) == TOKEN_ERROR) {
		int status = source->error(source, err);

		if (status == PROTON_E_FORMAT && !is_tree)
			err_wrap(err, "not a profile");
		return status;
	}
	return err_set(err, PROTON_E_FORMAT,
		       "not a profile: a list of a tree and a device table is expected");
}

int load_tree(struct token_source *source, struct profile **out, struct proton_error *err)
{
	struct tree_loader loader = {.source = source, .profile = profile_new()};
	struct profile *profile = loader.profile;
	bool is_tree;
	bool is_whole;
	int status = PROTON_OK;

	if (!profile)
		return err_nomem(err);
	loader.time = profile_string(profile, "time (ns)", 9);
	loader.count = profile_string(profile, "count", 5);
	loader.device_id = profile_string(profile, "device_id", 9);
	loader.device_type = profile_string(profile, "device_type", 11);
	is_whole = !profile->out_of_memory && read_list(&loader, &is_tree);
	if (profile->out_of_memory)
		status = err_nomem(err);
	else if (!is_whole && !(is_tree && source->is_truncated))
		status = fail_load(source, is_tree, err);
	if (status == PROTON_OK) {
		profile->is_damaged |= !is_whole;
		while (loader.depth)
			close_node(&loader);
		settle_metrics(profile, &loader.root);
	}
	if (status == PROTON_OK && profile->out_of_memory)
		status = err_nomem(err);
	FREE_ALL(loader.stack, loader.last_uses, loader.root.names, loader.elements);
	if (status == PROTON_OK)
		*out = profile;
	else
		profile_free(profile);
	return status;
}
