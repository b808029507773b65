/*
 * Loader of hatchet's nested lists.
 *
 * The tree is walked with a stack of open nodes. Data nested in a node (its frame, its metrics) has
 * a fixed depth and is read by plain functions. Three facts are known only later:
 *
 * - A node's name follows its children, so frames are set when a node closes.
 * - The inclusive names are on ROOT, which closes last.
 * - If a metric is "0" in one place and "0.5" in another, it is a double metric. The end of
 *   load_tree_metrics.c settles both.
 */
#include "model/load_tree.h"

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

static void read_frame(struct tree_loader *loader, struct open_node *open)
{
	struct token token;

	while (tree_next(loader, &token)) {
		bool is_name = tree_is_text(&token, "name");

		tree_next(loader, &token);
		if (!is_name || token.kind != TOKEN_STRING)
			continue;
		open->has_frame = true;
		open->frame = (struct row_frame){.kind = FRAME_NAME};
		if (!split_source(loader, token.text, token.length, &open->frame))
			open->frame = (struct row_frame){.kind = FRAME_NAME,
							 .name = tree_string(loader, &token)};
	}
}

/* ------------------------------------------------------------------ devices */

static void read_device(struct tree_loader *loader, uint32_t index)
{
	struct profile *profile = loader->profile;
	struct row_device none = {0};
	struct row_device *device = index < profile->device_count ? &profile->devices[index]
								  : &none;
	struct token token;

	while (tree_next(loader, &token)) {
		bool is_arch = tree_is_text(&token, "arch");
		uint64_t *number = tree_is_text(&token, "clock_rate") ? &device->clock_khz
				   : tree_is_text(&token, "memory_clock_rate")
					   ? &device->memory_clock_khz
				   : tree_is_text(&token, "bus_width") ? &device->bus_width_bits
				   : tree_is_text(&token, "num_sms")   ? &device->processors
								       : NULL;

		tree_next(loader, &token);
		if (is_arch && token.kind == TOKEN_STRING)
			device->arch = tree_string(loader, &token);
		else if (number)
			tree_u64(&token, number);
	}
}

/* {"0": {...}, "1": {...}} of one device type. */
static void read_device_type(struct tree_loader *loader, uint32_t type)
{
	struct token token;
	uint32_t id;

	while (tree_next(loader, &token)) {
		bool is_id = tree_device_id(token.text, token.length, &id);

		tree_next(loader, &token);
		if (is_id && tree_open(loader, &token, TOKEN_OBJECT))
			read_device(loader, profile_device(loader->profile, type, id));
	}
}

static void read_devices(struct tree_loader *loader)
{
	struct token token;

	while (tree_next(loader, &token)) {
		uint32_t type = tree_string(loader, &token);

		tree_next(loader, &token);
		if (tree_open(loader, &token, TOKEN_OBJECT))
			read_device_type(loader, type);
	}
}

/* ------------------------------------------------------------------ the member "proton" */

static uint32_t limited_u32(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* {"32768": 5, ...}: counts by the shortest duration of a bucket. */
static void read_histogram(struct tree_loader *loader, struct open_node *open)
{
	struct profile *profile = loader->profile;
	struct token token;

	if (!open->histogram)
		open->histogram = profile_histogram(profile);
	while (tree_next(loader, &token)) {
		uint64_t start = 0;
		uint64_t count;

		for (size_t i = 0; i < token.length && start < UINT64_MAX / 16; i++)
			start = start * 10 + (uint64_t)(unsigned char)(token.text[i] - '0') % 10;
		tree_next(loader, &token);
		if (tree_u64(&token, &count))
			profile->histograms[open->histogram].bucket[histogram_bucket(start)] =
				limited_u32(count);
	}
}

/* [x, y, z] */
static void read_dimensions(struct tree_loader *loader, uint32_t dimensions[3])
{
	struct token token;
	uint32_t at = 0;
	uint64_t value;

	while (tree_next(loader, &token))
		if (tree_u64(&token, &value) && at < 3)
			dimensions[at++] = limited_u32(value);
}

/* {"grid": [x, y, z], "block": [x, y, z], ...}; without a grid it is the entry for all others. */
static void read_config(struct tree_loader *loader, struct open_node *open)
{
	struct row_config launch = {.flags = CONFIG_OTHER};
	struct launch_config *config = &launch.config;
	struct token token;

	while (tree_next(loader, &token)) {
		bool is_grid = tree_is_text(&token, "grid");
		bool is_block = tree_is_text(&token, "block");
		uint64_t *sum = tree_is_text(&token, "count")       ? &launch.count
				: tree_is_text(&token, "time (ns)") ? &launch.total_ns
								    : NULL;
		uint32_t *number = tree_is_text(&token, "registers") ? &config->registers_per_thread
				   : tree_is_text(&token, "static_shared (bytes)")
					   ? &config->static_shared_bytes
				   : tree_is_text(&token, "dynamic_shared (bytes)")
					   ? &config->dynamic_shared_bytes
					   : NULL;
		uint64_t value;

		tree_next(loader, &token);
		if (is_grid && token.kind == TOKEN_ARRAY)
			launch.flags &= ~(uint32_t)CONFIG_OTHER;
		if ((is_grid || is_block) && tree_open(loader, &token, TOKEN_ARRAY))
			read_dimensions(loader, is_grid ? config->grid : config->block);
		else if (number && tree_u64(&token, &value))
			*number = limited_u32(value);
		else if (sum)
			tree_u64(&token, sum);
	}
	open->first_config = profile_config(loader->profile, open->first_config, &launch);
}

/* Launch configurations: a list of objects. */
static void read_configs(struct tree_loader *loader, struct open_node *open)
{
	struct token token;

	while (tree_next(loader, &token))
		if (tree_open(loader, &token, TOKEN_OBJECT))
			read_config(loader, open);
}

/* {"name": text, ...} */
static void read_info(struct tree_loader *loader)
{
	struct profile *profile = loader->profile;
	struct token token;

	while (tree_next(loader, &token)) {
		uint32_t key = tree_string(loader, &token);

		tree_next(loader, &token);
		if (token.kind == TOKEN_STRING)
			profile_info(profile, profile_text(profile, key),
				     profile_text(profile, tree_string(loader, &token)));
	}
}

/* {"name": count, ...} */
static void read_counters(struct tree_loader *loader, bool is_loss)
{
	struct profile *profile = loader->profile;
	struct token token;

	while (tree_next(loader, &token)) {
		uint32_t key = tree_string(loader, &token);
		uint64_t value;

		tree_next(loader, &token);
		if (tree_u64(&token, &value))
			profile_counter(profile, profile_text(profile, key), is_loss, value);
	}
}

/* Reads a node's "proton" object. */
static void read_extras(struct tree_loader *loader, struct open_node *open)
{
	struct profile *profile = loader->profile;
	bool is_root = open->node == 0;
	struct token token;

	while (tree_next(loader, &token)) {
		bool is_histogram = tree_is_text(&token, "histogram (ns)");
		bool is_configs = tree_is_text(&token, "configs");
		bool is_info = is_root && tree_is_text(&token, "info");
		bool is_metrics = is_root && tree_is_text(&token, "metrics");
		bool is_losses = is_root && tree_is_text(&token, "losses");
		bool is_counters = is_losses || (is_root && tree_is_text(&token, "counters"));
		uint64_t *number = tree_is_text(&token, "min (ns)")   ? &open->min_ns
				   : tree_is_text(&token, "max (ns)") ? &open->max_ns
				   : is_root && tree_is_text(&token, "start_time (ns)")
					   ? &profile->start_ns
				   : is_root && tree_is_text(&token, "end_time (ns)")
					   ? &profile->end_ns
					   : NULL;
		bool *state = is_root && tree_is_text(&token, "unfinished")
				      ? &profile->is_unfinished
			      : is_root && tree_is_text(&token, "damaged") ? &profile->is_damaged
									   : NULL;

		tree_next(loader, &token);
		if (is_histogram && tree_open(loader, &token, TOKEN_OBJECT)) {
			read_histogram(loader, open);
		} else if (is_configs && tree_open(loader, &token, TOKEN_ARRAY)) {
			read_configs(loader, open);
		} else if (is_metrics && tree_open(loader, &token, TOKEN_OBJECT)) {
			loader->is_root_rest = true;
			tree_read_metrics(loader, open);
			loader->is_root_rest = false;
		} else if (is_info && tree_open(loader, &token, TOKEN_OBJECT)) {
			read_info(loader);
		} else if (is_counters && tree_open(loader, &token, TOKEN_OBJECT)) {
			read_counters(loader, is_losses);
		} else if (state && token.kind == TOKEN_BOOL) {
			*state |= token.as.boolean;
		} else if (number) {
			tree_u64(&token, number);
		}
	}
}

/* ------------------------------------------------------------------ the tree */

static bool open_node(struct tree_loader *loader)
{
	uint32_t node = 0;

	if (!array_reserve(&loader->stack, &loader->stack_capacity, loader->depth + 1,
			   sizeof(*loader->stack))) {
		loader->profile->out_of_memory = true;
		return false;
	}
	if (loader->depth)
		node = profile_node(loader->profile, loader->stack[loader->depth - 1].node, 0);
	struct open_node *open = &loader->stack[loader->depth++];
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

/*
 * Reads the next member of the top node, or the next child in its list. False at the end of
 * readable input.
 */
static bool read_member(struct tree_loader *loader)
{
	struct open_node *open = &loader->stack[loader->depth - 1];
	struct token token;

	if (!tree_next(loader, &token)) {
		open->is_in_children = false;
		if (token.kind == TOKEN_OBJECT_END)
			close_node(loader);
		return !tree_has_failed(token.kind);
	}
	if (open->is_in_children)
		return !tree_open(loader, &token, TOKEN_OBJECT) || open_node(loader);
	bool is_children = tree_is_text(&token, "children");
	bool is_frame = tree_is_text(&token, "frame");
	bool is_metrics = tree_is_text(&token, "metrics");
	bool is_extras = tree_is_text(&token, "proton");
	tree_next(loader, &token);
	if (is_children && tree_open(loader, &token, TOKEN_ARRAY))
		open->has_children = open->is_in_children = true;
	else if (is_frame && tree_open(loader, &token, TOKEN_OBJECT))
		read_frame(loader, open);
	else if (is_metrics && tree_open(loader, &token, TOKEN_OBJECT))
		tree_read_metrics(loader, open);
	else if (is_extras && tree_open(loader, &token, TOKEN_OBJECT))
		read_extras(loader, open);
	return true;
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
	bool is_second = true;

	*is_tree = false;
	tree_next(loader, &token);
	if (!tree_open(loader, &token, TOKEN_ARRAY))
		return false;
	tree_next(loader, &token);
	if (!tree_open(loader, &token, TOKEN_OBJECT) || !read_root(loader, is_tree))
		return false;
	for (; tree_next(loader, &token); is_second = false)
		if (is_second && tree_open(loader, &token, TOKEN_OBJECT))
			read_devices(loader);
	return token.kind == TOKEN_ARRAY_END && token_next(loader->source, &token) == TOKEN_END;
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
	int status = PROTON_OK;

	if (!profile)
		return err_nomem(err);
	loader.time = profile_string(profile, "time (ns)", 9);
	loader.count = profile_string(profile, "count", 5);
	loader.device_id = profile_string(profile, "device_id", 9);
	loader.device_type = profile_string(profile, "device_type", 11);
	bool is_whole = !profile->out_of_memory && read_list(&loader, &is_tree);
	if (profile->out_of_memory)
		status = err_nomem(err);
	else if (!is_whole && !(is_tree && source->is_truncated))
		status = fail_load(source, is_tree, err);
	if (status == PROTON_OK) {
		profile->is_damaged |= !is_whole;
		while (loader.depth)
			close_node(&loader);
		tree_settle_metrics(&loader);
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
