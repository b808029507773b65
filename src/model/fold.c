/* Removing nodes from a profile's tree, in place. */
#include "model/fold.h"

#include <strings.h>

#include "base/array.h"
#include "base/hash.h"

struct fold {
	struct profile *profile;
	const bool *is_hidden;
	uint32_t *map;              /* by node before: the node that has its rows now */
	bool *is_fused;             /* by node now: it was several */
	bool *is_indexed;           /* by node now: its rows are in `rows` */
	bool *is_moved;             /* by value: it came from a hidden node */
	struct hash_table children; /* (parent, frame) -> node */
	struct hash_table rows;     /* (node, metric) -> value, (node, DEVICE + device) -> kernel */
};

#define DEVICE (UINT32_C(1) << 31)

/* ------------------------------------------------------------------ what may be hidden */

static bool has_samples(const struct profile *profile, uint32_t node)
{
	uint32_t v = profile->nodes[node].first_value;

	while (v &&
	       strcasecmp(profile_text(profile, profile->metrics[profile->values[v].metric].name),
			  SAMPLES_ALL) != 0)
		v = profile->values[v].next;
	return v;
}

size_t fold_allowed(const struct profile *profile, bool *is_hidden)
{
	AUTO_FREE bool *is_kernel =
		calloc(profile->node_count, sizeof(*is_kernel)); /* or below one */
	size_t count = 0;

	for (uint32_t i = 1; is_kernel && i < profile->node_count; i++) {
		const struct profile_node *node = &profile->nodes[i];

		is_kernel[i] = is_kernel[node->parent] || node->first_kernel ||
			       profile->frames[node->frame].kind == FRAME_KERNEL;
		/* A kernel that another tool sampled may have no time, by which it is known. */
		if (!is_kernel[i] && has_samples(profile, i))
			for (uint32_t at = i;
			     !is_kernel[at] &&
			     profile->frames[profile->nodes[at].frame].kind == FRAME_SOURCE;
			     at = profile->nodes[at].parent)
				is_kernel[at] = true;
	}
	for (size_t i = 0; i < profile->node_count; i++) {
		is_hidden[i] = is_hidden[i] && i && is_kernel && !is_kernel[i];
		count += is_hidden[i];
	}
	return count;
}

/* ------------------------------------------------------------------ rows */

static void add_entry(struct fold *fold, struct hash_table *table, uint64_t hash, uint32_t index)
{
	if (!hash_table_add(table, hash, index))
		fold->profile->out_of_memory = true;
}

/* Makes the rows of a node searchable, before more are added to it. */
static void index_rows(struct fold *fold, uint32_t node)
{
	const struct profile *profile = fold->profile;

	for (uint32_t v = profile->nodes[node].first_value; v; v = profile->values[v].next)
		add_entry(fold, &fold->rows, hash_pair(node, profile->values[v].metric), v);
	for (uint32_t k = profile->nodes[node].first_kernel; k; k = profile->kernels[k].next)
		add_entry(fold, &fold->rows, hash_pair(node, DEVICE + profile->kernels[k].device),
			  k);
}

static void sum_kernel(struct profile *profile, uint32_t index, uint32_t k)
{
	const struct profile_kernel from = profile->kernels[k];
	struct row_histogram histogram = profile->histograms[from.histogram];

	profile_kernel_add(profile, index, &from, from.histogram ? histogram.bucket : NULL);
	for (uint32_t c = from.first_config; c; c = profile->configs[c].next) {
		struct row_config config = profile->configs[c];
		uint32_t first =
			profile_config(profile, profile->kernels[index].first_config, &config);

		profile->kernels[index].first_config = first;
	}
}

/* The row of node `to` with that key; 0: there was none, and row `from` has become it. */
static uint32_t place_row(struct fold *fold, uint32_t to, uint32_t key, uint32_t from,
			  uint32_t *first, uint32_t *next)
{
	uint64_t hash = hash_pair(to, key);
	uint32_t found = hash_table_find(&fold->rows, hash);

	if (!found) {
		add_entry(fold, &fold->rows, hash, from);
		*next = *first;
		*first = from;
	}
	return found;
}

static void move_value(struct fold *fold, uint32_t v, uint32_t to, bool is_hidden)
{
	struct profile *profile = fold->profile;
	const struct profile_value value = profile->values[v];
	const struct row_metric *metric = &profile->metrics[value.metric];
	bool is_text = metric->type == PROTON_METRIC_STRING;
	const uint64_t *vector = profile_is_number(metric->type) || is_text
					 ? NULL
					 : profile->words + value.as.vector;
	uint32_t index = place_row(fold, to, value.metric, v, &profile->nodes[to].first_value,
				   &profile->values[v].next);

	if (!index)
		fold->is_moved[v] = is_hidden;
	else if (!is_hidden || fold->is_moved[index] ||
		 !(metric->flags & (METRIC_EXCLUSIVE | METRIC_PROPERTY)))
		profile_value_add(profile, index, &value, vector, false, false);
}

/* ------------------------------------------------------------------ nodes */

/* Adds the rows of a node that is gone to node `to`. */
static void move_rows(struct fold *fold, const struct profile_node *from, uint32_t to,
		      bool is_hidden)
{
	struct profile *profile = fold->profile;
	uint32_t next;

	if (!fold->is_indexed[to])
		index_rows(fold, to);
	fold->is_indexed[to] = true;
	for (uint32_t v = from->first_value; v; v = next) {
		next = profile->values[v].next;
		move_value(fold, v, to, is_hidden);
	}
	for (uint32_t k = from->first_kernel; k; k = next) {
		next = profile->kernels[k].next;
		uint32_t index = place_row(fold, to, DEVICE + profile->kernels[k].device, k,
					   &profile->nodes[to].first_kernel,
					   &profile->kernels[k].next);
		if (index)
			sum_kernel(profile, index, k);
	}
}

/* A node is written where one was that has been read: there are never more. */
static void place_nodes(struct fold *fold)
{
	struct profile *profile = fold->profile;
	size_t count = profile->node_count;

	profile->nodes[0].first_child = profile->nodes[0].last_child = 0;
	profile->node_count = 1;
	profile->value_tail = profile->kernel_tail = (struct list_tail){0};
	for (uint32_t i = 1; i < count && !profile->out_of_memory; i++) {
		struct profile_node node = profile->nodes[i];
		uint32_t parent = fold->map[node.parent];
		uint64_t hash = hash_pair(parent, node.frame);
		uint32_t place = fold->is_hidden[i] ? parent
						    : hash_table_find(&fold->children, hash);

		if (fold->is_hidden[i] || place) {
			fold->map[i] = place;
			fold->is_fused[place] |= !fold->is_hidden[i];
			move_rows(fold, &node, place, fold->is_hidden[i]);
			continue;
		}
		place = profile_node(profile, parent, node.frame);
		add_entry(fold, &fold->children, hash, place);
		profile->nodes[place].first_value = node.first_value;
		profile->nodes[place].first_kernel = node.first_kernel;
		fold->map[i] = place;
	}
}

/* ------------------------------------------------------------------ what refers to nodes */

/* True if the statistics of a node are those of the node that it became. */
static bool keeps_statistics(const struct fold *fold, uint32_t node)
{
	return !fold->is_hidden[node] && !fold->is_fused[fold->map[node]];
}

static void move_statistics(struct fold *fold, struct profile_ranks *ranks)
{
	struct value_spreads *values = &ranks->values;
	size_t kept = 1;

	for (size_t i = 0; i < ranks->node_capacity; i++)
		ranks->spread_of_node[i] = 0;
	for (size_t i = 1; i < ranks->spread_count; i++) {
		uint32_t node = ranks->spreads[i].node;

		if (!keeps_statistics(fold, node))
			continue;
		ranks->spreads[kept] = ranks->spreads[i];
		ranks->spreads[kept].node = fold->map[node];
		ranks->spread_of_node[fold->map[node]] = (uint32_t)kept++;
	}
	ranks->spread_count = ranks->spread_count ? kept : 0;
	kept = 1;
	hash_table_clear(&values->index);
	for (size_t i = 1; i < values->count; i++) {
		struct row_value_spread row = values->rows[i];

		if (!keeps_statistics(fold, row.node))
			continue;
		row.node = fold->map[row.node];
		add_entry(fold, &values->index, hash_pair(row.node, row.metric), (uint32_t)kept);
		values->rows[kept++] = row;
	}
	values->count = values->count ? kept : 0;
	kept = 0;
	for (size_t c = 0; c < ranks->column_count; c++) {
		uint32_t node = ranks->columns[c].node;

		if (!keeps_statistics(fold, node))
			continue;
		ranks->columns[kept].node = fold->map[node];
		memmove(ranks->cells + kept++ * ranks->count, ranks->cells + c * ranks->count,
			ranks->count * sizeof(*ranks->cells));
	}
	ranks->column_count = kept;
	fold->profile->out_of_memory |= !ranks_index_columns(ranks);
	ranks->other = fold->map[ranks->other];
}

static void move_references(struct fold *fold)
{
	struct profile *profile = fold->profile;
	struct profile_ranks *ranks = profile->ranks;
	struct rank_kept *kept = ranks ? ranks->kept : NULL;
	struct profile_waits *waits = profile->waits;
	struct profile_trace *trace = profile->trace;

	if (ranks)
		move_statistics(fold, ranks);
	for (size_t i = 0; kept && i < kept->count; i++)
		kept->places[i] = fold->map[kept->places[i]];
	for (size_t i = 0; waits && i < waits->duration_count; i++)
		waits->durations[i].node = fold->map[waits->durations[i].node];
	for (size_t i = 0; waits && i < waits->count; i++)
		waits->series[i].row.node = fold->map[waits->series[i].row.node];
	if (waits)
		hash_table_clear(&waits->index);
	for (size_t i = 0; trace && i < trace->node_count; i++)
		if (trace->nodes[i])
			trace->nodes[i] = fold->map[trace->nodes[i] - 1] + 1;
}

void profile_fold(struct profile *profile, const bool *is_hidden)
{
	struct fold fold = {
		.profile = profile,
		.is_hidden = is_hidden,
		.map = calloc(profile->node_count, sizeof(*fold.map)),
		.is_fused = calloc(profile->node_count, sizeof(*fold.is_fused)),
		.is_indexed = calloc(profile->node_count, sizeof(*fold.is_indexed)),
		.is_moved = calloc(profile->value_count, sizeof(*fold.is_moved)),
	};

	if (!fold.map || !fold.is_fused || !fold.is_indexed || !fold.is_moved ||
	    !hash_table_reserve(&fold.children, profile->node_count)) {
		profile->out_of_memory = true;
	} else {
		place_nodes(&fold);
		move_references(&fold);
	}
	hash_table_fini(&fold.children);
	hash_table_fini(&fold.rows);
	FREE_ALL(fold.map, fold.is_fused, fold.is_indexed, fold.is_moved);
}

/* ------------------------------------------------------------------ owners */

/* Parts of paths: the first that is found decides. */
static const struct {
	const char *part;
	enum frame_owner owner;
} parts[] = {
	/* in site-packages or dist-packages */
	{"-packages/triton/", OWNER_TRITON},
	{"-packages/triton_proton/", OWNER_TRITON},
	{"-packages/torch/", OWNER_TORCH},
	{"-packages/functorch/", OWNER_TORCH},
	{"-packages/torchgen/", OWNER_TORCH},
	{"-packages/", OWNER_PACKAGE},
	/* checkouts, and the cache of torch.compile */
	{"/python/triton/", OWNER_TRITON},
	{"/pytorch/torch/", OWNER_TORCH},
	{"/torchinductor_", OWNER_TORCH},
	{"<eval_with_key>", OWNER_TORCH},
	{"<frozen ", OWNER_PYTHON},
	{"/lib/python3.", OWNER_PYTHON},
	{"/lib64/python3.", OWNER_PYTHON},
};

enum frame_owner frame_owner(const struct profile *profile, uint32_t frame)
{
	const struct row_frame *row = &profile->frames[frame];
	size_t i = 0;

	if (row->kind != FRAME_SOURCE)
		return OWNER_USER;
	while (i < ARRAY_LENGTH(parts) && !strstr(profile_text(profile, row->file), parts[i].part))
		i++;
	return i < ARRAY_LENGTH(parts) ? parts[i].owner : OWNER_USER;
}
