/* Search for TTGIR operations that automatic scopes can surround. */
#include "intra/ttgir/find_operations.h"

#include <stdio.h>
#include <stdlib.h>

#include "intra/ttgir/mlir_regions.h"

#define SITES_MAX 4096u
#define UNPLACED_MAX 16u /* consecutive sites */
#define NUMBER_MAX 10000u

/* ------------------------------------------------------------------ operations */

struct operation {
	const char *name; /* without the dialect prefix */
	const char *word; /* used in the scope's name */
	uint32_t kind;
};

static const struct operation operations[] = {
	{"load", "load", INSTRUMENT_AUTO_LOADS},
	{"descriptor_load", "descriptor_load", INSTRUMENT_AUTO_LOADS},
	{"descriptor_gather", "descriptor_gather", INSTRUMENT_AUTO_LOADS},
	{"async_copy_global_to_local", "async_copy", INSTRUMENT_AUTO_LOADS},
	{"async_tma_copy_global_to_local", "tma_load", INSTRUMENT_AUTO_LOADS},
	{"async_tma_gather", "tma_gather", INSTRUMENT_AUTO_LOADS},
	{"async_tdm_copy_global_to_local", "tdm_load", INSTRUMENT_AUTO_LOADS},
	{"async_tdm_gather", "tdm_gather", INSTRUMENT_AUTO_LOADS},
	{"buffer_load", "load", INSTRUMENT_AUTO_LOADS},
	{"buffer_load_to_local", "load_to_local", INSTRUMENT_AUTO_LOADS},
	{"masked_load", "load", INSTRUMENT_AUTO_LOADS},

	{"dot", "dot", INSTRUMENT_AUTO_DOTS},
	{"dot_scaled", "dot_scaled", INSTRUMENT_AUTO_DOTS},
	{"warp_group_dot", "dot", INSTRUMENT_AUTO_DOTS},
	{"tc_gen5_mma", "dot", INSTRUMENT_AUTO_DOTS},
	{"tc_gen5_mma_scaled", "dot_scaled", INSTRUMENT_AUTO_DOTS},

	{"store", "store", INSTRUMENT_AUTO_STORES},
	{"descriptor_store", "descriptor_store", INSTRUMENT_AUTO_STORES},
	{"descriptor_scatter", "descriptor_scatter", INSTRUMENT_AUTO_STORES},
	{"descriptor_reduce", "descriptor_reduce", INSTRUMENT_AUTO_STORES},
	{"async_tma_copy_local_to_global", "tma_store", INSTRUMENT_AUTO_STORES},
	{"async_tma_scatter", "tma_scatter", INSTRUMENT_AUTO_STORES},
	{"async_tma_reduce", "tma_reduce", INSTRUMENT_AUTO_STORES},
	{"async_tdm_copy_local_to_global", "tdm_store", INSTRUMENT_AUTO_STORES},
	{"async_tdm_scatter", "tdm_scatter", INSTRUMENT_AUTO_STORES},
	{"async_copy_local_to_global", "async_store", INSTRUMENT_AUTO_STORES},
	{"buffer_store", "store", INSTRUMENT_AUTO_STORES},
	{"masked_store", "store", INSTRUMENT_AUTO_STORES},
	{"atomic_rmw", "atomic", INSTRUMENT_AUTO_STORES},
	{"atomic_cas", "atomic_cas", INSTRUMENT_AUTO_STORES},
	{"buffer_atomic_rmw", "atomic", INSTRUMENT_AUTO_STORES},
	{"buffer_atomic_cas", "atomic_cas", INSTRUMENT_AUTO_STORES},

	{"async_wait", "async_wait", INSTRUMENT_AUTO_WAITS},
	{"warp_group_dot_wait", "dot_wait", INSTRUMENT_AUTO_WAITS},
	{"wait_barrier", "wait_barrier", INSTRUMENT_AUTO_WAITS},
	{"async_tma_store_wait", "store_wait", INSTRUMENT_AUTO_WAITS},
	{"async_tdm_wait", "tdm_wait", INSTRUMENT_AUTO_WAITS},
	{"async_tdm_intrinsic_wait", "tdm_wait", INSTRUMENT_AUTO_WAITS},
	{"barrier", "barrier", INSTRUMENT_AUTO_WAITS},
	{"cluster_barrier", "cluster_barrier", INSTRUMENT_AUTO_WAITS},
	{"cluster_barrier_wait", "cluster_barrier", INSTRUMENT_AUTO_WAITS},
	{"cluster_wait", "cluster_wait", INSTRUMENT_AUTO_WAITS},
	{"atomic_poll", "atomic_poll", INSTRUMENT_AUTO_WAITS},
	{"grid_dependency_wait", "grid_dependency_wait", INSTRUMENT_AUTO_WAITS},
};
#define OPERATION_COUNT (sizeof(operations) / sizeof(operations[0]))

static const struct operation *find_operation(struct slice op)
{
	static const char *const dialects[] = {"tt.", "ttg.", "ttng.", "amdg.", "amdgpu.", "gpu."};

	for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++) {
		struct slice name = op;

		if (!slice_take(&name, dialects[i]))
			continue;
		for (size_t k = 0; k < OPERATION_COUNT; k++)
			if (slice_is(name, operations[k].name))
				return &operations[k];
	}
	return NULL;
}

uint32_t operations_kind(struct slice op)
{
	const struct operation *operation = find_operation(op);

	return operation ? operation->kind : 0;
}

uint32_t operations_kinds_of_scope(struct slice word)
{
	uint32_t kinds = 0;

	for (size_t i = 0; i < OPERATION_COUNT; i++)
		if (slice_is(word, operations[i].word))
			kinds |= operations[i].kind;
	return kinds;
}

/* ------------------------------------------------------------------ walking */

enum region_kind {
	REGION_OTHER,
	REGION_PLAIN,
	REGION_LOOP,
	REGION_PARTITION
};

struct region {
	enum region_kind kind;
	bool is_open;   /* scopes can be inserted inside */
	uint32_t site;  /* that ends with this region, or SITE_NONE */
	uint32_t depth; /* loops around it, including itself */
	uint32_t slot;  /* see struct site */
};

struct walk {
	struct sites *found;
	struct mlir_locations locations;
	uint32_t autos;
	uint32_t line;
	struct region regions[MLIR_DEPTH_MAX];
	uint32_t region_count;
	/* location that passes give to operations without a source line */
	struct mlir_location kernel;
	/* of the last operation with a location in the current block */
	struct mlir_location before;
	uint32_t unplaced[UNPLACED_MAX];
	uint32_t unplaced_count;
	bool is_specializing; /* after "ttg.warp_specialize", before its partitions */
};

static const struct region outside = {REGION_OTHER, false, SITE_NONE, 0, 0};

static const struct region *current(const struct walk *walk)
{
	return walk->region_count ? &walk->regions[walk->region_count - 1] : &outside;
}

static struct site *add_site(struct walk *walk, const char *word, struct slice indent)
{
	struct sites *found = walk->found;
	struct site *site;

	if (!found->sites || found->count == SITES_MAX) {
		found->missed++;
		return NULL;
	}
	site = &found->sites[found->count++];
	*site = (struct site){
		.word = word,
		.start_line = walk->line,
		.end_line = SITE_NONE,
		.depth = current(walk)->depth,
		.slot = current(walk)->slot,
		.cost = 1,
		.indent = indent,
		.location = {indent.at, 0},
		.place = {.file = {indent.at, 0}},
	};
	return site;
}

static void set_location(struct walk *walk, struct site *site, struct slice location)
{
	site->location = location;
	site->place = mlir_locations_resolve(&walk->locations, location);
}

static uint32_t site_index(const struct walk *walk, const struct site *site)
{
	return site ? (uint32_t)(site - walk->found->sites) : SITE_NONE;
}

static bool has_place(const struct walk *walk, const struct mlir_location *place)
{
	return place->file.length &&
	       !(place->line == walk->kernel.line && slices_equal(place->file, walk->kernel.file));
}

static void leave_block(struct walk *walk)
{
	walk->before.file.length = 0;
	walk->unplaced_count = 0;
}

/*
 * Triton gives the kernel's location to the barriers of partitions and to copies divided among
 * partitions. Such a copy gets the location of the preceding operation, which is the wait for a
 * free buffer. Any other operation gets the location of the following one, which is the one that
 * waits.
 */
static void place_operation(struct walk *walk, struct slice location, struct site *site,
			    bool is_load)
{
	struct mlir_location place = mlir_locations_resolve(&walk->locations, location);

	if (has_place(walk, &place)) {
		for (uint32_t i = 0; i < walk->unplaced_count; i++)
			walk->found->sites[walk->unplaced[i]].place = place;
		walk->unplaced_count = 0;
		walk->before = place;
	} else if (site && is_load && walk->before.file.length) {
		site->place = walk->before;
	} else if (site && place.file.length && walk->unplaced_count < UNPLACED_MAX) {
		walk->unplaced[walk->unplaced_count++] = site_index(walk, site);
	}
}

static void open_region(struct walk *walk, struct region region)
{
	walk->regions[walk->region_count++] = region;
	leave_block(walk);
}

/* The number after `key` in the line; 0 if there is none. */
static uint32_t number_after(struct slice line, const char *key)
{
	const char *at = slice_find(line, key);
	uint32_t number = 0;

	if (at) {
		line = slice_between(at + strlen(key), slice_end(line));
		slice_take_number(&line, NUMBER_MAX, &number);
	}
	return number;
}

static void open_partition(struct walk *walk, const struct mlir_line *line, struct slice text)
{
	struct region region = *current(walk);
	bool is_default = slice_take(&text, "default");
	uint32_t part = number_after(text, "partition");
	struct site *site = NULL;

	walk->found->warp_count += number_after(text, " num_warps(");
	region.kind = REGION_PARTITION;
	region.site = SITE_NONE;
	region.slot = is_default ? 1 : 2 + part;
	if (region.slot >= SITE_SLOTS)
		region.slot = SITE_SLOTS - 1;
	if (region.is_open && (walk->autos & INSTRUMENT_AUTO_PARTITIONS)) {
		site = add_site(walk, is_default ? "default" : "partition", line->indent);
		if (site) {
			site->is_inner = true;
			site->is_part = !is_default;
			site->part = part;
			site->cost = 2;
			site->slot = region.slot;
		}
		region.site = site_index(walk, site);
	}
	open_region(walk, region);
}

static void open_line(struct walk *walk, const struct mlir_line *line, struct slice text)
{
	struct region region = *current(walk);

	if (walk->is_specializing && mlir_begins_partition(text)) {
		open_partition(walk, line, text);
		return;
	}
	region.kind = REGION_PLAIN;
	region.site = SITE_NONE;
	if (mlir_is_loop(line)) {
		region.kind = REGION_LOOP;
		region.depth++;
		if (region.is_open && (walk->autos & INSTRUMENT_AUTO_LOOPS)) {
			struct site *site = add_site(walk, "loop", line->indent);

			if (site)
				site->cost = 2;
			region.site = site_index(walk, site);
		}
	} else if (slice_is(line->op, "tt.func")) {
		region.is_open = true; /* including noinline functions */
	} else if (!slice_is(line->op, "scf.if")) {
		region.kind = REGION_OTHER;
		region.is_open = false;
	}
	open_region(walk, region);
}

static void close_line(struct walk *walk, const struct mlir_line *line, struct slice text)
{
	struct region closed = *current(walk);

	walk->region_count--;
	leave_block(walk);
	if (mlir_opens_region(text)) { /* "} else {", "} do {" */
		open_region(walk, closed);
		return;
	}
	if (closed.kind == REGION_LOOP && closed.site != SITE_NONE) {
		struct site *site = &walk->found->sites[closed.site];

		site->end_line = walk->line;
		set_location(walk, site, line->location);
	}
	/* The operation's type follows the last partition. */
	walk->is_specializing = closed.kind == REGION_PARTITION && slice_find(text, " : ") == NULL;
}

static void read_operation(struct walk *walk, const struct mlir_line *line)
{
	const struct region *region = current(walk);
	struct site *around = region->kind == REGION_PARTITION && region->site != SITE_NONE
				      ? &walk->found->sites[region->site]
				      : NULL;
	const struct operation *operation;
	struct site *site = NULL;

	walk->is_specializing = slice_is(line->op, "ttg.warp_specialize");
	if (around &&
	    (slice_is(line->op, "ttg.warp_yield") || slice_is(line->op, "ttg.warp_return"))) {
		/* An empty partition gets no scope. */
		if (around->start_line + 1 < walk->line)
			around->end_line = walk->line;
		if (!around->place.file.length)
			set_location(walk, around, line->location);
		return;
	}
	/* A partition's location is that of its first operation with a source line. */
	if (around && !around->place.file.length && line->location.length)
		set_location(walk, around, line->location);
	operation = region->is_open ? find_operation(line->op) : NULL;
	if (operation && (walk->autos & operation->kind)) {
		site = add_site(walk, operation->word, line->indent);
		if (site) {
			site->end_line = walk->line;
			set_location(walk, site, line->location);
		}
	}
	place_operation(walk, line->location, site,
			operation && operation->kind == INSTRUMENT_AUTO_LOADS);
}

static void walk_line(struct walk *walk, const struct mlir_region_line *text)
{
	if (!text->is_code)
		return;
	if (mlir_closes_region(text->trimmed)) {
		close_line(walk, &text->line, text->trimmed);
	} else if (text->end != MLIR_NO_LINE) {
		if (!walk->found->warp_count)
			walk->found->warp_count =
				number_after(text->trimmed, "\"ttg.num-warps\" = ");
		open_line(walk, &text->line, text->trimmed);
	} else if (text->line.op.length) {
		read_operation(walk, &text->line);
	}
}

/* The kernel's own location: that of the module. */
static struct mlir_location place_of_kernel(const struct walk *walk, struct slice text)
{
	const char *last = slice_find_last(text, "\n}");
	struct slice rest = slice_between(last ? last + 1 : slice_end(text), slice_end(text));
	struct mlir_line line;

	mlir_line_read(slice_take_until(&rest, '\n'), &line);
	return mlir_locations_resolve(&walk->locations, line.location);
}

int operations_find(struct slice text, uint32_t autos, struct sites *out, struct proton_error *err)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	struct mlir_regions lines;
	int status;

	*out = (struct sites){0};
	out->sites = calloc(SITES_MAX, sizeof(*out->sites));
	if (!walk || !out->sites || !mlir_locations_read(text, &walk->locations)) {
		free(walk);
		operations_fini(out);
		return err_nomem(err);
	}
	walk->found = out;
	walk->kernel = place_of_kernel(walk, text);
	walk->before.file = (struct slice){text.at, 0};
	walk->autos = autos;
	status = mlir_regions_read(text, &lines, err);
	for (; status == PROTON_OK && walk->line < lines.count; walk->line++)
		walk_line(walk, &lines.at[walk->line]);
	mlir_regions_fini(&lines);
	mlir_locations_fini(&walk->locations);
	free(walk);
	if (status != PROTON_OK)
		operations_fini(out);
	return status;
}

void operations_fini(struct sites *sites)
{
	for (uint32_t i = 0; i < sites->scope_count; i++)
		free(sites->scopes[i].name);
	free(sites->scopes);
	free(sites->sites);
	*sites = (struct sites){0};
}

/* ------------------------------------------------------------------ names */

static bool is_same_line(const struct site *a, const struct site *b)
{
	return strcmp(a->word, b->word) == 0 && a->part == b->part &&
	       a->place.line == b->place.line && slices_equal(a->place.file, b->place.file);
}

/*
 * True if another location on the same line has the same operation, so the name needs the column.
 */
static bool needs_column(const struct sites *sites, const struct site *site)
{
	for (uint32_t i = 0; i < sites->count; i++)
		if (sites->sites[i].place.column != site->place.column &&
		    sites->sites[i].end_line != SITE_NONE && is_same_line(&sites->sites[i], site))
			return true;
	return false;
}

static void write_name(const struct sites *sites, const struct site *site, char *name, size_t size)
{
	const struct mlir_location *place = &site->place;
	int length = place->file.length > 100 ? 100 : (int)place->file.length;
	size_t used = (size_t)snprintf(name, size, "%s", site->word);

	if (site->is_part)
		used += (size_t)snprintf(name + used, size - used, "%u", site->part);
	if (!length)
		return;
	used += (size_t)snprintf(name + used, size - used, "@%.*s:%u", length, place->file.at,
				 place->line);
	if (place->column && needs_column(sites, site))
		snprintf(name + used, size - used, ":%u", place->column);
}

static uint32_t scope_of(struct sites *sites, const char *name)
{
	for (uint32_t i = 0; i < sites->scope_count; i++)
		if (sites->scopes[i].name && strcmp(sites->scopes[i].name, name) == 0)
			return i;
	sites->scopes[sites->scope_count].name = strdup(name);
	return sites->scopes[sites->scope_count].name ? sites->scope_count++ : SITE_NONE;
}

bool operations_name(struct sites *sites)
{
	char name[256];

	sites->scopes = calloc(sites->count ? sites->count : 1, sizeof(*sites->scopes));
	if (!sites->scopes)
		return false;
	for (uint32_t i = 0; i < sites->count; i++) {
		struct site *site = &sites->sites[i];
		struct site_scope *scope;

		site->scope = SITE_NONE;
		if (site->end_line == SITE_NONE)
			continue;
		write_name(sites, site, name, sizeof(name));
		site->scope = scope_of(sites, name);
		if (site->scope == SITE_NONE)
			return false;
		scope = &sites->scopes[site->scope];
		if (site->depth > scope->depth) {
			scope->depth = site->depth;
			memset(scope->costs, 0, sizeof(scope->costs));
		}
		if (site->depth == scope->depth)
			scope->costs[site->slot] += site->cost;
	}
	return true;
}

/* Maximum records of a warp: outside partitions and in one of them. */
static uint32_t max_records(const uint32_t costs[SITE_SLOTS])
{
	uint32_t max = 0;

	for (uint32_t slot = 1; slot < SITE_SLOTS; slot++)
		if (costs[slot] > max)
			max = costs[slot];
	return costs[0] + max;
}

void operations_limit(struct sites *sites, uint32_t scope_limit, uint32_t record_limit)
{
	uint32_t kept = sites->scope_count;
	uint32_t costs[SITE_SLOTS] = {0};

	for (uint32_t i = 0; i < sites->scope_count; i++)
		for (uint32_t slot = 0; slot < SITE_SLOTS; slot++)
			costs[slot] += sites->scopes[i].costs[slot];
	while (kept > scope_limit || max_records(costs) > record_limit) {
		struct site_scope *worst = NULL;

		for (uint32_t i = 0; i < sites->scope_count; i++) {
			struct site_scope *scope = &sites->scopes[i];

			if (!scope->is_dropped && (!worst || scope->depth >= worst->depth))
				worst = scope;
		}
		if (!worst)
			return;
		worst->is_dropped = true;
		for (uint32_t slot = 0; slot < SITE_SLOTS; slot++)
			costs[slot] -= worst->costs[slot];
		kept--;
	}
}
