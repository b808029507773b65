/*
 * Loader of PC samples. Rows are untrusted, as in load_profile.c: every index is checked, and the
 * tree gets at most LINES_MAX nodes, because a small file could otherwise multiply its functions'
 * lines by their contexts.
 */
#include "model/samples.h"

#include "base/array.h"
#include "model/clamped.h"
#include "model/sample_lines.h"

/* A selected row of TABLE_PCS. */
struct cell {
	uint32_t function;
	uint32_t node; /* + 1, of the profile; 0: the launch is not known */
	uint32_t offset;
	uint32_t reason;
	uint64_t samples;
	uint64_t not_issued;
};

/* Time of a function in a kernel node. Sorted by name and CRC. */
struct run {
	uint32_t name; /* string of the profile */
	uint32_t node;
	uint64_t crc;
	uint64_t ns;
};

/* A node that samples of a function are divided between. */
struct target {
	uint32_t node;
	uint64_t weight; /* then the rest of its share, while the parts are divided */
	uint64_t share;  /* its part of the divided samples */
};

/* Samples of one line with one reason; of one node, or to be divided. */
struct part {
	uint32_t node; /* + 1; 0: to be divided */
	uint32_t frame;
	uint32_t reason;
	uint64_t samples;
};

#define REASON_CACHE 64u
/* More lines than any program has; further samples are added to their kernels. */
#define LINES_MAX (1u << 22)

struct loading {
	struct profile *profile;
	struct profile_samples *samples;
	const struct profile_view *view;
	const struct profile_trace *maps;
	const uint32_t *kernel_nodes;
	struct cell *cells;
	size_t cell_count;
	struct run *runs;
	size_t run_count;
	/* Of one function: */
	struct target *targets;
	struct part *parts; /* then also the divided ones */
	size_t target_count;
	size_t part_count;
	struct hash_table children; /* nodes of lines: hash_pair(parent, frame) */
	uint64_t budget; /* runs that may still be used; a legitimate file uses each a few times */
	struct {
		uint32_t string;
		uint32_t reason;
	} reasons[REASON_CACHE];
};

static uint64_t rows_of(const struct loading *loading, enum table_id table)
{
	return loading->view->rows[table];
}

static const void *table_of(const struct loading *loading, enum table_id table)
{
	return loading->view->table[table];
}

static uint32_t string_of(const struct loading *loading, uint32_t string)
{
	uint32_t mapped = string < loading->maps->string_count ? loading->maps->strings[string] : 0;

	return mapped ? mapped - 1 : 0;
}

/* ------------------------------------------------------------------ rows */

/* The metric (a string) of a stall reason with this name of the vendor. */
static uint32_t reason_metric(struct profile *profile, uint32_t reason)
{
	/* Two names of upstream Proton differ from the vendor's. */
	static const struct {
		const char *vendor, *metric;
	} names[] = {{"no_instructions", "no_instruction"}, {"not_selected", "not_Selected"}};
	const char *text = profile_text(profile, reason);
	const char *at = strstr(text, "_stalled_");
	char name[128];
	size_t length;

	if (at)
		text = at + strlen("_stalled_");
	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (strcmp(text, names[i].vendor) == 0)
			text = names[i].metric;
	length = strnlen(text, sizeof(name) - sizeof(SAMPLES_REASON));
	memcpy(name, SAMPLES_REASON, strlen(SAMPLES_REASON));
	memcpy(name + strlen(SAMPLES_REASON), text, length);
	return profile_string(profile, name, strlen(SAMPLES_REASON) + length);
}

static uint32_t find_reason(struct loading *loading, uint32_t string)
{
	struct profile_samples *samples = loading->samples;
	uint32_t name = reason_metric(loading->profile, string_of(loading, string));

	for (uint32_t i = 0; i < samples->reason_count; i++)
		if (samples->reasons[i] == name)
			return i;
	if (samples->reason_count == SAMPLES_REASONS_MAX) {
		loading->profile->is_damaged = true;
		return 0;
	}
	samples->reasons[samples->reason_count] = name;
	return (uint32_t)samples->reason_count++;
}

static uint32_t reason_of(struct loading *loading, uint32_t string)
{
	uint32_t slot = string % REASON_CACHE;

	if (loading->reasons[slot].string != string || !string) {
		loading->reasons[slot].reason = find_reason(loading, string);
		loading->reasons[slot].string = string;
	}
	return loading->reasons[slot].reason;
}

static bool take_cells(struct loading *loading)
{
	const struct row_pc *rows = table_of(loading, TABLE_PCS);
	uint64_t nodes = rows_of(loading, TABLE_NODES);

	loading->cells = calloc(rows_of(loading, TABLE_PCS) + 1, sizeof(*loading->cells));
	if (!loading->cells)
		return false;
	for (uint64_t i = 1; i < rows_of(loading, TABLE_PCS); i++) {
		const struct row_pc *row = &rows[i];

		if (!row->function || row->epoch >= loading->maps->epoch_count ||
		    !loading->maps->is_selected[row->epoch])
			continue;
		if (row->function >= rows_of(loading, TABLE_FUNCTIONS) || row->node >= nodes) {
			loading->profile->is_damaged = true;
			continue;
		}
		loading->cells[loading->cell_count++] = (struct cell){
			.function = row->function,
			.node = row->node ? loading->maps->nodes[row->node] : 0,
			.offset = row->offset,
			.reason = reason_of(loading, row->reason),
			.samples = row->samples,
			.not_issued = row->not_issued,
		};
	}
	return true;
}

ARRAY_ORDER(compare_runs, struct run, ORDER_OF(a->name, b->name) ?: ORDER_OF(a->crc, b->crc))

static bool take_runs(struct loading *loading)
{
	const struct row_function *functions = table_of(loading, TABLE_FUNCTIONS);
	const struct row_run *rows = table_of(loading, TABLE_RUNS);
	uint64_t kernels = rows_of(loading, TABLE_KERNELS);

	loading->runs = calloc(rows_of(loading, TABLE_RUNS) + 1, sizeof(*loading->runs));
	if (!loading->runs)
		return false;
	for (uint64_t i = 1; i < rows_of(loading, TABLE_RUNS); i++) {
		if (!rows[i].kernel)
			continue;
		if (rows[i].kernel >= kernels ||
		    rows[i].function >= rows_of(loading, TABLE_FUNCTIONS)) {
			loading->profile->is_damaged = true;
			continue;
		}
		if (!loading->kernel_nodes[rows[i].kernel])
			continue; /* of an epoch that is not selected */
		loading->runs[loading->run_count++] = (struct run){
			.name = string_of(loading, functions[rows[i].function].name),
			.crc = functions[rows[i].function].crc,
			.node = loading->kernel_nodes[rows[i].kernel] - 1,
			.ns = rows[i].sampled_ns,
		};
	}
	ARRAY_SORT(loading->runs, loading->run_count, compare_runs);
	return true;
}

/* ------------------------------------------------------------------ functions */

ARRAY_ORDER(compare_cells, struct cell,
	    ORDER_OF(a->function, b->function) ?: ORDER_OF(a->offset, b->offset)
	    ?: ORDER_OF(a->reason, b->reason) ?: ORDER_OF(a->node, b->node))

/* Appends the samples of cells `from` to `to`, of one function, and the function. */
static void add_function(struct loading *loading, size_t from, size_t to)
{
	const struct row_function *rows = table_of(loading, TABLE_FUNCTIONS);
	const struct row_function *row = &rows[loading->cells[from].function];
	struct profile_samples *samples = loading->samples;
	struct profile_function *function = &samples->functions[samples->function_count++];
	uint64_t code_objects = rows_of(loading, TABLE_CODE_OBJECTS);

	*function = (struct profile_function){
		.name = string_of(loading, row->name),
		.code_object = row->code_object < code_objects ? row->code_object : 0,
		.crc = row->crc,
		.first_pc = samples->pc_count,
	};
	for (size_t i = from; i < to; i++) {
		const struct cell *cell = &loading->cells[i];
		struct profile_pc *pc = samples->pcs + samples->pc_count;

		if (i == from || pc[-1].offset != cell->offset || pc[-1].reason != cell->reason) {
			*pc = (struct profile_pc){.offset = cell->offset, .reason = cell->reason};
			samples->pc_count++;
			pc++;
		}
		pc[-1].samples = clamped_u64(pc[-1].samples, cell->samples);
		pc[-1].not_issued = clamped_u64(pc[-1].not_issued, cell->not_issued);
		function->samples = clamped_u64(function->samples, cell->samples);
		function->not_issued = clamped_u64(function->not_issued, cell->not_issued);
	}
	function->pc_count = samples->pc_count - function->first_pc;
}

/* ------------------------------------------------------------------ division */

/*
 * The samples of one function are divided between kernel nodes, in proportion to the function's
 * time in each: integers that add up, per node, line and stall reason.
 */

static void add_target(struct loading *loading, uint32_t node, uint64_t weight)
{
	loading->profile->out_of_memory |=
		!ARRAY_ADD(loading->targets, loading->target_count,
			   (struct target){.node = node, .weight = weight});
}

static void add_part(struct loading *loading, uint32_t node, uint32_t frame, uint32_t reason,
		     uint64_t samples)
{
	loading->profile->out_of_memory |= !ARRAY_ADD(loading->parts, loading->part_count,
						      (struct part){node, frame, reason, samples});
}

ARRAY_ORDER(compare_targets, struct target, ORDER_OF(a->node, b->node))

/* A node has one entry; without any time, all nodes weigh the same. */
static void unite_targets(struct loading *loading)
{
	uint64_t sum = 0;
	size_t count = 0;

	ARRAY_SORT(loading->targets, loading->target_count, compare_targets);
	for (size_t i = 0; i < loading->target_count; i++) {
		struct target target = loading->targets[i];

		sum = clamped_u64(sum, target.weight);
		if (count && loading->targets[count - 1].node == target.node)
			loading->targets[count - 1].weight =
				clamped_u64(loading->targets[count - 1].weight, target.weight);
		else
			loading->targets[count++] = target;
	}
	loading->target_count = count;
	for (size_t i = 0; i < count && !sum; i++)
		loading->targets[i].weight = 1;
}

struct share {
	uint32_t target;
	uint64_t part;
	uint64_t remainder;
};

ARRAY_ORDER(compare_shares, struct share,
	    ORDER_OF(b->remainder, a->remainder) ?: ORDER_OF(a->target, b->target))

/*
 * Divides `samples` by the weights, by the method of the largest remainder: the rounded parts add
 * up to `samples`.
 */
static void divide_samples(const struct loading *loading, uint64_t samples, struct share *shares)
{
	__uint128_t sum = 0;
	uint64_t rest = samples;

	for (size_t i = 0; i < loading->target_count; i++)
		sum += loading->targets[i].weight;
	for (size_t i = 0; i < loading->target_count; i++) {
		__uint128_t product = (__uint128_t)samples * loading->targets[i].weight;

		shares[i] = (struct share){.target = (uint32_t)i,
					   .part = sum ? (uint64_t)(product / sum) : 0,
					   .remainder = sum ? (uint64_t)(product % sum) : 0};
		rest -= shares[i].part;
	}
	if (!rest)
		return;
	ARRAY_SORT(shares, loading->target_count, compare_shares);
	for (size_t i = 0; i < loading->target_count && rest; i++, rest--)
		shares[i].part++;
}

/*
 * Divides each cell without a node. First the sum is divided, then each cell in proportion to what
 * the nodes still have to get: a node's parts add up to its share, a cell's to the part. Returns
 * the samples that were divided.
 */
static uint64_t divide_parts(struct loading *loading)
{
	AUTO_FREE struct share *shares = calloc(loading->target_count + 1, sizeof(*shares));
	size_t count = loading->part_count;
	uint64_t sum = 0;

	if (!shares) {
		loading->profile->out_of_memory = true;
		return 0;
	}
	for (size_t i = 0; i < count; i++)
		if (!loading->parts[i].node)
			sum = clamped_u64(sum, loading->parts[i].samples);
	divide_samples(loading, sum, shares);
	for (size_t i = 0; i < loading->target_count; i++) {
		loading->targets[shares[i].target].share = shares[i].part;
		loading->targets[shares[i].target].weight = shares[i].part;
	}
	for (size_t i = 0; i < count && !loading->profile->out_of_memory; i++) {
		struct part part = loading->parts[i];

		if (part.node)
			continue;
		if (loading->part_count > LINES_MAX) {
			loading->profile->is_damaged = true;
			break;
		}
		divide_samples(loading, part.samples, shares);
		for (size_t k = 0; k < loading->target_count; k++) {
			struct target *target = &loading->targets[shares[k].target];

			target->weight -= shares[k].part < target->weight ? shares[k].part
									  : target->weight;
			if (shares[k].part)
				add_part(loading, target->node + 1, part.frame, part.reason,
					 shares[k].part);
		}
	}
	return loading->target_count > 1 ? sum : 0;
}

/* ------------------------------------------------------------------ tree */

ARRAY_ORDER(compare_parts, struct part,
	    ORDER_OF(a->node, b->node) ?: ORDER_OF(a->frame, b->frame)
	    ?: ORDER_OF(a->reason, b->reason))

static void add_value(struct profile *profile, uint32_t node, uint32_t name, uint64_t samples)
{
	uint32_t metric = profile_metric(profile, name, PROTON_METRIC_INT64, 0);
	uint32_t at = profile->nodes[node].first_value;

	if (!samples)
		return;
	while (at && profile->values[at].metric != metric)
		at = profile->values[at].next;
	struct profile_value *value = at ? &profile->values[at]
					 : profile_value(profile, node, metric);
	clamped_add(&value->as.int64, samples > INT64_MAX ? INT64_MAX : (int64_t)samples);
}

/*
 * The child of `node` for a line, made if new. Frames of the table that differ only in the column
 * are one line.
 */
static uint32_t line_child(struct loading *loading, uint32_t node, uint32_t frame)
{
	uint64_t hash = hash_pair(node, frame);
	uint32_t child = hash_table_find(&loading->children, hash);

	if (!child) {
		child = profile_node(loading->profile, node, frame);
		if (!hash_table_add(&loading->children, hash, child))
			loading->profile->out_of_memory = true;
	}
	return child;
}

/* The node of a line below `kernel`, with its callers; `known` is by frame. */
static uint32_t line_node(struct loading *loading, const struct lines *lines, uint32_t kernel,
			  uint32_t frame, uint32_t *known)
{
	uint32_t path[64];
	size_t depth = 0;
	uint32_t node = kernel;

	/* A deeper chain keeps its innermost frames. */
	for (uint32_t at = frame; at && depth < ARRAY_LENGTH(path); at = lines_caller(lines, at)) {
		if (known[at]) {
			node = known[at] - 1;
			break;
		}
		path[depth++] = at;
	}
	while (depth--) {
		node = line_child(loading, node, lines_profile_frame(lines, path[depth]));
		known[path[depth]] = node + 1;
	}
	return node;
}

static void add_line(struct loading *loading, uint32_t node, const struct part *parts, size_t count)
{
	struct profile *profile = loading->profile;
	uint32_t selected = profile_add_text(profile, SAMPLES_SELECTED);
	uint32_t unknown = profile_add_text(profile, SAMPLES_UNKNOWN);
	uint64_t stalled = 0, all = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t reason = loading->samples->reasons[parts[i].reason];

		all = clamped_u64(all, parts[i].samples);
		if (reason != selected && reason != unknown)
			stalled = clamped_u64(stalled, parts[i].samples);
	}
	add_value(profile, node, profile_add_text(profile, SAMPLES_ALL), all);
	add_value(profile, node, profile_add_text(profile, SAMPLES_STALLED), stalled);
	for (size_t i = 0; i < count; i++)
		if (loading->samples->reasons[parts[i].reason] != unknown)
			add_value(profile, node, loading->samples->reasons[parts[i].reason],
				  parts[i].samples);
}

static void add_parts(struct loading *loading, const struct lines *lines, uint64_t divided)
{
	struct profile *profile = loading->profile;
	AUTO_FREE uint32_t *known = calloc((size_t)lines_frame_max(lines) + 1, sizeof(*known));
	size_t to;

	if (!known) {
		profile->out_of_memory = true;
		return;
	}
	for (size_t from = 0; from < loading->part_count && !profile->out_of_memory; from = to) {
		const struct part *first = &loading->parts[from];
		uint32_t node = first->node - 1;

		for (to = from; to < loading->part_count &&
				loading->parts[to].node == first->node &&
				loading->parts[to].frame == first->frame;)
			to++;
		if (!first->node)
			continue;
		if (from == 0 || first[-1].node != first->node)
			memset(known, 0, (lines_frame_max(lines) + (size_t)1) * sizeof(*known));
		if (first->frame && profile->node_count < LINES_MAX)
			node = line_node(loading, lines, node, first->frame, known);
		add_line(loading, node, first, to - from);
	}
	for (size_t i = 0; i < loading->target_count && divided; i++)
		add_value(profile, loading->targets[i].node,
			  profile_add_text(profile, SAMPLES_APPORTIONED),
			  loading->targets[i].share);
}

/* ------------------------------------------------------------------ attribution */

/* Adds the runs of a function with this CRC; UINT64_MAX: with any. */
static void add_targets(struct loading *loading, uint32_t name, uint64_t crc)
{
	const struct run key = {.name = name, .crc = crc == UINT64_MAX ? 0 : crc};
	size_t i = ARRAY_COUNT_BEFORE(loading->run_count, r,
				      compare_runs(&loading->runs[r], &key) < 0);

	for (; i < loading->run_count && loading->runs[i].name == name &&
	       (crc == UINT64_MAX || loading->runs[i].crc == crc);
	     i++) {
		if (!loading->budget) {
			loading->profile->is_damaged = true;
			return;
		}
		loading->budget--;
		add_target(loading, loading->runs[i].node, loading->runs[i].ns);
	}
}

/* Nodes where a function ran, with its time there, of its code object or of an unknown one. */
static void find_targets(struct loading *loading, uint32_t function)
{
	const struct row_function *row =
		(const struct row_function *)table_of(loading, TABLE_FUNCTIONS) + function;
	uint32_t name = string_of(loading, row->name);

	add_targets(loading, name, row->crc ? row->crc : UINT64_MAX);
	if (row->crc)
		add_targets(loading, name, 0);
}

/* Divides the cells `from` to `to` of one function, and adds them to the tree. */
static void attribute(struct loading *loading, struct profile_function *function,
		      struct lines *lines, size_t from, size_t to)
{
	struct profile *profile = loading->profile;
	struct row_frame frame = {.kind = FRAME_KERNEL, .name = function->name};
	bool has_unknown = false;

	loading->target_count = loading->part_count = 0;
	for (size_t i = from; i < to; i++) {
		const struct cell *cell = &loading->cells[i];
		uint32_t line = lines_frame(lines, cell->offset, cell->samples);

		has_unknown |= !cell->node;
		add_part(loading, cell->node, line, cell->reason, cell->samples);
	}
	if (has_unknown)
		find_targets(loading, loading->cells[from].function);
	/* Samples of a function without any launch are of a kernel below the root. */
	if (has_unknown && !loading->target_count)
		add_target(loading, profile_node(profile, 0, profile_frame(profile, frame)), 1);
	unite_targets(loading);
	if (loading->target_count)
		function->apportioned = divide_parts(loading);
	ARRAY_SORT(loading->parts, loading->part_count, compare_parts);
	if (!profile->out_of_memory)
		add_parts(loading, lines, function->apportioned);
}

/* ------------------------------------------------------------------ content */

/* Copies `bytes` of a blob to `*to`, which moves on; NULL: it is not in the table. */
static const void *copy_blob(struct loading *loading, uint32_t blob, uint64_t bytes, uint8_t **to,
			     uint64_t *budget)
{
	uint64_t words = rows_of(loading, TABLE_BLOBS);
	const uint8_t *content = table_of(loading, TABLE_BLOBS);
	const void *copy = *to;

	if (!blob)
		return NULL;
	if (blob >= words || bytes > (words - blob) * 8 || (bytes + 7) / 8 * 8 > *budget) {
		loading->profile->is_damaged = true;
		return NULL;
	}
	memcpy(*to, content + (uint64_t)blob * 8, bytes);
	*to += (bytes + 7) / 8 * 8;
	*budget -= (bytes + 7) / 8 * 8;
	return copy;
}

static void copy_content(struct loading *loading)
{
	const struct row_code_object *code_objects = table_of(loading, TABLE_CODE_OBJECTS);
	const struct row_source *sources = table_of(loading, TABLE_SOURCES);
	struct profile_samples *samples = loading->samples;
	uint64_t budget = rows_of(loading, TABLE_BLOBS) * 8;
	uint8_t *to = samples->content;

	for (uint64_t i = 1; i < rows_of(loading, TABLE_CODE_OBJECTS); i++) {
		struct profile_code_object *object =
			&samples->code_objects[samples->code_object_count++];

		object->crc = code_objects[i].crc;
		object->is_left_out = code_objects[i].flags & BLOB_LEFT_OUT;
		object->bytes = copy_blob(loading, code_objects[i].blob, code_objects[i].bytes, &to,
					  &budget);
		object->length = object->bytes ? code_objects[i].bytes : 0;
	}
	for (uint64_t i = 1; i < rows_of(loading, TABLE_SOURCES); i++) {
		struct profile_source *source = &samples->sources[samples->source_count++];

		source->path = string_of(loading, sources[i].path);
		source->hash = sources[i].hash;
		source->is_left_out = sources[i].flags & BLOB_LEFT_OUT;
		source->text = copy_blob(loading, sources[i].blob, sources[i].bytes, &to, &budget);
		source->length = source->text ? sources[i].bytes : 0;
	}
}

static bool alloc_samples(struct loading *loading)
{
	struct profile_samples *samples = loading->samples;

	samples->reasons = calloc(SAMPLES_REASONS_MAX, sizeof(*samples->reasons));
	samples->pcs = calloc(rows_of(loading, TABLE_PCS) + 1, sizeof(*samples->pcs));
	samples->functions =
		calloc(rows_of(loading, TABLE_FUNCTIONS) + 1, sizeof(*samples->functions));
	samples->code_objects =
		calloc(rows_of(loading, TABLE_CODE_OBJECTS) + 1, sizeof(*samples->code_objects));
	samples->sources = calloc(rows_of(loading, TABLE_SOURCES) + 1, sizeof(*samples->sources));
	samples->files = calloc(SAMPLES_FILES_MAX, sizeof(*samples->files));
	samples->content = malloc(rows_of(loading, TABLE_BLOBS) * 8 + 1);
	return samples->reasons && samples->pcs && samples->functions && samples->code_objects &&
	       samples->sources && samples->files && samples->content;
}

/*
 * Gives kernels that ran while PCs were sampled, and of which none is known, the number 0. Nodes of
 * lines come after their kernels.
 */
static void add_zeros(struct loading *loading)
{
	struct profile *profile = loading->profile;
	uint32_t all = profile_add_text(profile, SAMPLES_ALL);
	uint32_t metric = profile_metric(profile, all, PROTON_METRIC_INT64, 0);
	AUTO_FREE bool *has_samples = calloc(profile->node_count + (size_t)1, sizeof(*has_samples));

	if (!has_samples || profile->out_of_memory) {
		profile->out_of_memory = true;
		return;
	}
	for (size_t i = profile->node_count; i--;) {
		const struct profile_node *node = &profile->nodes[i];

		for (uint32_t v = node->first_value; v && !has_samples[i];
		     v = profile->values[v].next)
			has_samples[i] = profile->values[v].metric == metric;
		if (has_samples[i] && profile->frames[node->frame].kind == FRAME_SOURCE)
			has_samples[node->parent] = true;
	}
	for (size_t i = 0; i < loading->run_count; i++) {
		uint32_t node = loading->runs[i].node;

		if (!has_samples[node])
			profile_value(profile, node, metric)->as.int64 = 0;
		has_samples[node] = true;
	}
}

ARRAY_ORDER(compare_functions, struct profile_function,
	    ORDER_OF(b->samples, a->samples) ?: ORDER_OF(a->first_pc, b->first_pc))

/* The cells are sorted by function. */
static void add_functions(struct loading *loading)
{
	struct profile_samples *samples = loading->samples;
	AT_END(lines_close) struct lines lines = {0};
	size_t to;

	for (size_t from = 0; from < loading->cell_count; from = to) {
		struct profile_function *function = &samples->functions[samples->function_count];

		for (to = from; to < loading->cell_count &&
				loading->cells[to].function == loading->cells[from].function;)
			to++;
		add_function(loading, from, to);
		lines_open(&lines, loading->profile, samples, function);
		attribute(loading, function, &lines, from, to);
	}
	if (samples->function_count)
		lines_describe(&lines);
	ARRAY_SORT(samples->functions, samples->function_count, compare_functions);
}

static bool add_samples(struct loading *loading)
{
	loading->samples = calloc(1, sizeof(*loading->samples));
	loading->profile->samples = loading->samples;
	if (!loading->samples || !alloc_samples(loading) || !take_cells(loading))
		return false;
	ARRAY_SORT(loading->cells, loading->cell_count, compare_cells);
	copy_content(loading);
	add_functions(loading);
	return true;
}

void load_samples(struct profile *profile, const struct profile_view *view,
		  const struct profile_trace *maps, const uint32_t *kernel_nodes)
{
	struct loading loading = {.profile = profile,
				  .view = view,
				  .maps = maps,
				  .kernel_nodes = kernel_nodes,
				  .budget = 1u << 26};

	if (!take_runs(&loading)) {
		profile->out_of_memory = true;
		return;
	}
	if (rows_of(&loading, TABLE_PCS) > 1 && !add_samples(&loading))
		profile->out_of_memory = true;
	if (loading.run_count)
		add_zeros(&loading);
	hash_table_fini(&loading.children);
	FREE_ALL(loading.cells, loading.runs, loading.targets, loading.parts);
}

void samples_free(struct profile_samples *samples)
{
	if (!samples)
		return;
	FREE_ALL(samples->reasons, samples->pcs, samples->functions, samples->code_objects,
		 samples->sources, samples->files, samples->content, samples);
}
