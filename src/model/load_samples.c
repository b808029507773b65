/*
 * Loader of PC samples. Rows are untrusted, as in load_profile.c: every index is checked, and the
 * tree gets at most LINES_MAX nodes, because a small file could otherwise multiply its functions'
 * lines by their contexts.
 */
#include "model/load_samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "model/clamped.h"
#include "model/sample_lines.h"
#include "model/sample_parts.h"

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

#define REASON_CACHE 64u

struct loading {
	struct profile *profile;
	struct profile_samples *samples;
	const struct samples_source *source;
	struct cell *cells;
	size_t cell_count;
	struct run *runs;
	size_t run_count;
	struct hash_table children; /* nodes of lines */
	uint64_t budget; /* runs that may still be used; a legitimate file uses each a few times */
	struct {
		uint32_t string;
		uint32_t reason;
	} reasons[REASON_CACHE];
};

static uint64_t rows_of(const struct loading *loading, enum table_id table)
{
	const struct profile_view *view = loading->source->view;

	return view->table[table] ? view->rows[table] : 0;
}

static const void *table_of(const struct loading *loading, enum table_id table)
{
	return loading->source->view->table[table];
}

static uint32_t string_of(const struct loading *loading, uint32_t string)
{
	uint32_t mapped =
		string < rows_of(loading, TABLE_STRINGS) ? loading->source->strings[string] : 0;

	return mapped ? mapped - 1 : 0;
}

/* ------------------------------------------------------------------ rows */

/* The index of a stall reason. */
static uint32_t find_reason(struct loading *loading, uint32_t string)
{
	struct profile_samples *samples = loading->samples;
	uint32_t name = samples_reason_metric(loading->profile, string_of(loading, string));

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

static bool is_row_selected(struct loading *loading, uint32_t epoch)
{
	return epoch < loading->source->epoch_count && loading->source->is_selected[epoch];
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

		if (!row->function || !is_row_selected(loading, row->epoch))
			continue;
		if (row->function >= rows_of(loading, TABLE_FUNCTIONS) || row->node >= nodes) {
			loading->profile->is_damaged = true;
			continue;
		}
		loading->cells[loading->cell_count++] = (struct cell){
			.function = row->function,
			.node = row->node ? loading->source->nodes[row->node] : 0,
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
		if (!loading->source->kernel_nodes[rows[i].kernel])
			continue; /* of an epoch that is not selected */
		loading->runs[loading->run_count++] = (struct run){
			.name = string_of(loading, functions[rows[i].function].name),
			.crc = functions[rows[i].function].crc,
			.node = loading->source->kernel_nodes[rows[i].kernel] - 1,
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

/* ------------------------------------------------------------------ attribution */

/* The first run that is not before (name, crc). */
static size_t first_run(const struct loading *loading, uint32_t name, uint64_t crc)
{
	const struct run key = {.name = name, .crc = crc};

	return ARRAY_COUNT_BEFORE(loading->run_count, i, compare_runs(&loading->runs[i], &key) < 0);
}

/* Adds the runs of a function with this CRC; UINT64_MAX: with any. */
static void add_targets(struct loading *loading, uint32_t name, uint64_t crc,
			struct sample_parts *parts)
{
	size_t i = first_run(loading, name, crc == UINT64_MAX ? 0 : crc);

	for (; i < loading->run_count && loading->runs[i].name == name &&
	       (crc == UINT64_MAX || loading->runs[i].crc == crc);
	     i++) {
		if (!loading->budget) {
			loading->profile->is_damaged = true;
			return;
		}
		loading->budget--;
		parts_target(parts, loading->runs[i].node, loading->runs[i].ns);
	}
}

/* Nodes where a function ran, with its time there, of its code object or of an unknown one. */
static void find_targets(struct loading *loading, uint32_t function, struct sample_parts *parts)
{
	const struct row_function *row =
		(const struct row_function *)table_of(loading, TABLE_FUNCTIONS) + function;
	uint32_t name = string_of(loading, row->name);

	add_targets(loading, name, row->crc ? row->crc : UINT64_MAX, parts);
	if (row->crc)
		add_targets(loading, name, 0, parts);
}

/* A kernel below the root, for samples of a function without any launch. */
static uint32_t make_orphan(struct loading *loading, uint32_t function)
{
	const struct row_function *rows = table_of(loading, TABLE_FUNCTIONS);
	struct row_frame frame = {.kind = FRAME_KERNEL,
				  .name = string_of(loading, rows[function].name)};

	return profile_node(loading->profile, 0, profile_frame(loading->profile, frame));
}

/* Divides the cells `from` to `to` of one function, and adds them to the tree. */
static void attribute(struct loading *loading, struct profile_function *function,
		      struct lines *lines, size_t from, size_t to)
{
	struct sample_parts parts = {.profile = loading->profile,
				     .samples = loading->samples,
				     .children = &loading->children};
	bool has_unknown = false;

	for (size_t i = from; i < to; i++) {
		const struct cell *cell = &loading->cells[i];
		uint32_t frame = lines_add(lines, cell->offset, cell->samples);

		has_unknown |= !cell->node;
		parts_cell(&parts, cell->node, frame, cell->reason, cell->samples);
	}
	if (has_unknown)
		find_targets(loading, loading->cells[from].function, &parts);
	if (has_unknown && !parts.target_count)
		parts_target(&parts, make_orphan(loading, loading->cells[from].function), 1);
	function->apportioned = parts_finish(&parts, lines);
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
	uint32_t all = profile_string(profile, SAMPLES_ALL, strlen(SAMPLES_ALL));
	uint32_t metric = profile_metric(profile, all, PROTON_METRIC_INT64, 0);
	bool *has_samples = calloc(profile->node_count + (size_t)1, sizeof(*has_samples));

	if (!has_samples || profile->out_of_memory) {
		profile->out_of_memory = true;
		free(has_samples);
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
	free(has_samples);
}

ARRAY_ORDER(compare_functions, struct profile_function,
	    ORDER_OF(b->samples, a->samples) ?: ORDER_OF(a->first_pc, b->first_pc))

/* The cells are sorted by function. */
static void add_functions(struct loading *loading)
{
	struct profile_samples *samples = loading->samples;
	struct lines lines = {0};
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
	lines_close(&lines);
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

void load_samples(struct profile *profile, const struct samples_source *source)
{
	struct loading loading = {.profile = profile, .source = source, .budget = 1u << 26};

	if (!take_runs(&loading)) {
		profile->out_of_memory = true;
		return;
	}
	if (rows_of(&loading, TABLE_PCS) > 1 && !add_samples(&loading))
		profile->out_of_memory = true;
	if (loading.run_count)
		add_zeros(&loading);
	hash_table_fini(&loading.children);
	free(loading.cells);
	free(loading.runs);
}

void samples_free(struct profile_samples *samples)
{
	if (!samples)
		return;
	FREE_ALL(samples->reasons, samples->pcs, samples->functions, samples->code_objects,
		 samples->sources, samples->files, samples->content, samples);
}
