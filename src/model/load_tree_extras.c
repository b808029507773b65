/* Loader of Proton's additions to hatchet files: the "proton" object of a node. */
#include "model/load_tree_parts.h"

/* {"32768": 5, ...}: counts by the shortest duration of a bucket. */
static bool read_histogram(struct tree_loader *loader, struct open_node *open)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	if (!open->histogram)
		open->histogram = profile_histogram(profile);
	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint64_t start = 0;
		uint64_t count;

		for (size_t i = 0; i < token.length && start < UINT64_MAX / 16; i++)
			start = start * 10 + (uint64_t)(unsigned char)(token.text[i] - '0') % 10;
		kind = token_next(loader->source, &token);
		if (tree_u64(&token, &count))
			profile->histograms[open->histogram].bucket[histogram_bucket(start)] =
				count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
		else if (!token_skip(loader->source, kind))
			return false;
	}
	return !tree_has_failed(kind);
}

/* [x, y, z] */
static bool read_dimensions(struct tree_loader *loader, uint32_t dimensions[3])
{
	struct token token;
	enum token_kind kind;
	uint32_t at = 0;

	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		uint64_t value;

		if (tree_has_failed(kind))
			return false;
		if (!tree_u64(&token, &value)) {
			if (!token_skip(loader->source, kind))
				return false;
			continue;
		}
		if (at < 3)
			dimensions[at++] = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
	}
	return true;
}

/* {"grid": [x, y, z], "block": [x, y, z], ...}; without a grid it is the entry for all others. */
static bool read_config(struct tree_loader *loader, struct open_node *open)
{
	struct row_config launch = {.flags = CONFIG_OTHER};
	struct launch_config *config = &launch.config;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		bool is_grid = tree_is_text(&token, "grid");
		bool is_block = tree_is_text(&token, "block");
		bool is_count = tree_is_text(&token, "count");
		bool is_time = tree_is_text(&token, "time (ns)");
		uint32_t *number = tree_is_text(&token, "registers") ? &config->registers_per_thread
				   : tree_is_text(&token, "static_shared (bytes)")
					   ? &config->static_shared_bytes
				   : tree_is_text(&token, "dynamic_shared (bytes)")
					   ? &config->dynamic_shared_bytes
					   : NULL;
		bool is_whole = true;
		uint64_t value;

		kind = token_next(loader->source, &token);
		if ((is_grid || is_block) && kind == TOKEN_ARRAY) {
			launch.flags &= ~(is_grid ? (uint32_t)CONFIG_OTHER : 0u);
			is_whole = read_dimensions(loader, is_grid ? config->grid : config->block);
		} else if (!tree_u64(&token, &value)) {
			is_whole = token_skip(loader->source, kind);
		} else if (number) {
			*number = value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
		} else if (is_count || is_time) {
			*(is_count ? &launch.count : &launch.total_ns) = value;
		}
		if (!is_whole)
			return false;
	}
	open->first_config = profile_config(loader->profile, open->first_config, &launch);
	return !tree_has_failed(kind);
}

/* Launch configurations: a list of objects. */
static bool read_configs(struct tree_loader *loader, struct open_node *open)
{
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) != TOKEN_ARRAY_END) {
		if (tree_has_failed(kind))
			return false;
		if (kind == TOKEN_OBJECT ? !read_config(loader, open)
					 : !token_skip(loader->source, kind))
			return false;
	}
	return true;
}

/* {"name": text or number, ...} */
static bool read_info(struct tree_loader *loader)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t key = tree_string(loader, &token);

		kind = token_next(loader->source, &token);
		if (kind == TOKEN_STRING) {
			uint32_t value = tree_string(loader, &token);

			profile_info(profile, profile_text(profile, key),
				     profile_text(profile, value));
		} else if (!token_skip(loader->source, kind)) {
			return false;
		}
	}
	return !tree_has_failed(kind);
}

/* {"name": count, ...} */
static bool read_counters(struct tree_loader *loader, bool is_loss)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		uint32_t key = tree_string(loader, &token);
		uint64_t value;

		kind = token_next(loader->source, &token);
		if (tree_u64(&token, &value))
			profile_counter(profile, profile_text(profile, key), is_loss, value);
		else if (!token_skip(loader->source, kind))
			return false;
	}
	return !tree_has_failed(kind);
}

/* Reads metrics of ROOT that are not inclusive numbers. */
static bool read_root_rest(struct tree_loader *loader, struct open_node *open)
{
	bool is_whole;

	loader->is_root_rest = true;
	is_whole = tree_read_metrics(loader, open);
	loader->is_root_rest = false;
	return is_whole;
}

bool tree_read_extras(struct tree_loader *loader, struct open_node *open)
{
	struct profile *profile = loader->profile;
	struct token token;
	enum token_kind kind;

	while ((kind = token_next(loader->source, &token)) == TOKEN_KEY) {
		bool is_min = tree_is_text(&token, "min (ns)");
		bool is_max = tree_is_text(&token, "max (ns)");
		bool is_histogram = tree_is_text(&token, "histogram (ns)");
		bool is_configs = tree_is_text(&token, "configs");
		bool is_info = tree_is_text(&token, "info");
		bool is_metrics = tree_is_text(&token, "metrics");
		bool is_losses = tree_is_text(&token, "losses");
		bool is_counters = is_losses || tree_is_text(&token, "counters");
		bool is_start = tree_is_text(&token, "start_time (ns)");
		bool is_end = tree_is_text(&token, "end_time (ns)");
		bool is_unfinished = tree_is_text(&token, "unfinished");
		bool is_damaged = tree_is_text(&token, "damaged");
		bool is_whole = true;
		uint64_t value = 0;

		kind = token_next(loader->source, &token);
		if (is_histogram && kind == TOKEN_OBJECT)
			is_whole = read_histogram(loader, open);
		else if (is_configs && kind == TOKEN_ARRAY)
			is_whole = read_configs(loader, open);
		else if (is_metrics && kind == TOKEN_OBJECT && open->node == 0)
			is_whole = read_root_rest(loader, open);
		else if (is_info && kind == TOKEN_OBJECT && open->node == 0)
			is_whole = read_info(loader);
		else if (is_counters && kind == TOKEN_OBJECT && open->node == 0)
			is_whole = read_counters(loader, is_losses);
		else if (kind == TOKEN_BOOL && open->node == 0 && is_unfinished)
			profile->is_unfinished |= token.as.boolean;
		else if (kind == TOKEN_BOOL && open->node == 0 && is_damaged)
			profile->is_damaged |= token.as.boolean;
		else if (!tree_u64(&token, &value))
			is_whole = token_skip(loader->source, kind);
		else if (is_min || is_max)
			*(is_min ? &open->min_ns : &open->max_ns) = value;
		else if (open->node == 0 && (is_start || is_end))
			*(is_start ? &profile->start_ns : &profile->end_ns) = value;
		if (!is_whole)
			return false;
	}
	return !tree_has_failed(kind);
}
