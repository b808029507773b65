/* Search for TTGIR operations that automatic scopes can surround, their names, and how many fit. */
#include "intra/ttgir/find_operations.h"

#include <stdio.h>

#define SITES_MAX 4096u
#define UNPLACED_MAX 16u /* consecutive sites */

/* ------------------------------------------------------------------ walking */

struct region {
	bool is_partition;
	bool is_open;   /* scopes can be inserted inside */
	uint32_t site;  /* that ends with this region, or SITE_NONE */
	uint32_t depth; /* loops around it, including itself */
	uint32_t slot;  /* see struct site */
	bool has_dot;   /* in this block, not in regions inside */
	uint32_t first; /* the sites from this one on are in it */
};

struct walk {
	struct sites *found;
	const struct mlir_regions *lines;
	uint32_t autos;
	uint32_t line;
	struct region regions[MLIR_DEPTH_MAX];
	uint32_t region_count;
	/* location that passes give to operations without a source line */
	struct mlir_location kernel;
	/* of the last operation with a location in the current block */
	struct mlir_frames before;
	uint32_t unplaced[UNPLACED_MAX];
	uint32_t unplaced_count;
	struct site *math;    /* the current run of arithmetic, or NULL */
	bool is_specializing; /* after "ttg.warp_specialize", before its partitions */
};

static const struct region outside = {.site = SITE_NONE};

static const struct region *current(const struct walk *walk)
{
	return walk->region_count ? &walk->regions[walk->region_count - 1] : &outside;
}

static struct site *add_site(struct walk *walk, struct slice word, struct slice indent)
{
	struct sites *found = walk->found;

	if (!found->sites || found->count == SITES_MAX) {
		found->missed++;
		return NULL;
	}
	struct site *site = &found->sites[found->count++];
	*site = (struct site){
		.word = word,
		.start_line = walk->line,
		.end_line = SITE_NONE,
		.depth = current(walk)->depth,
		.slot = current(walk)->slot,
		.cost = 1,
		.indent = indent,
		.location = {indent.at, 0},
	};
	return site;
}

static void set_location(struct walk *walk, struct site *site, struct slice location)
{
	site->location = location;
	site->frames = mlir_locations_frames(walk->lines, location);
}

static uint32_t site_index(const struct walk *walk, const struct site *site)
{
	return site ? (uint32_t)(site - walk->found->sites) : SITE_NONE;
}

static bool has_place(const struct walk *walk, const struct mlir_frames *frames)
{
	return frames->count && !mlir_is_same_line(&frames->at[0], &walk->kernel);
}

/* The partition's location: the line of its function that has or calls its first operation. */
static void set_location_of_partition(struct walk *walk, struct site *site, struct slice location)
{
	struct mlir_frames frames = mlir_locations_frames(walk->lines, location);

	if (!frames.count || has_place(walk, &site->frames))
		return;
	while (frames.count > 1 && mlir_is_same_line(&frames.at[frames.count - 1], &walk->kernel))
		frames.count--;
	site->location = location;
	site->frames.at[0] = frames.at[frames.count - 1];
	site->frames.count = 1;
}

static void leave_block(struct walk *walk)
{
	walk->before.count = 0;
	walk->unplaced_count = 0;
	walk->math = NULL;
}

/* Arithmetic gets scopes only in blocks with dots, such as a softmax between them. */
static void close_math(struct walk *walk, const struct region *block)
{
	for (uint32_t i = block->first; i < walk->found->count; i++) {
		struct site *site = &walk->found->sites[i];

		if (site->is_math && !block->has_dot)
			site->end_line = SITE_NONE;
		site->is_math = false;
	}
}

/*
 * Triton gives the kernel's location to the barriers of partitions and to copies divided among
 * partitions. Such a copy gets the location of the preceding operation, which is the wait for a
 * free buffer. Any other operation gets the location of the following one, which waits.
 */
static void place_operation(struct walk *walk, struct slice location, struct site *site,
			    bool is_load)
{
	struct mlir_frames frames = mlir_locations_frames(walk->lines, location);

	if (has_place(walk, &frames)) {
		for (uint32_t i = 0; i < walk->unplaced_count; i++)
			walk->found->sites[walk->unplaced[i]].frames = frames;
		walk->unplaced_count = 0;
		walk->before = frames;
	} else if (site && is_load && walk->before.count) {
		site->frames = walk->before;
	} else if (site && frames.count && walk->unplaced_count < UNPLACED_MAX) {
		walk->unplaced[walk->unplaced_count++] = site_index(walk, site);
	}
}

static void open_region(struct walk *walk, struct region region)
{
	region.first = walk->found->count;
	region.has_dot = false;
	walk->regions[walk->region_count++] = region;
	leave_block(walk);
}

static void open_partition(struct walk *walk, const struct mlir_line *line, struct slice text)
{
	struct region region = *current(walk);
	bool is_default = slice_take(&text, "default");
	uint32_t part = mlir_number_after(text, "partition");
	struct site *site = NULL;

	walk->found->warp_count += mlir_number_after(text, " num_warps(");
	region.is_partition = true;
	region.site = SITE_NONE;
	region.slot = is_default ? 1 : 2 + part;
	if (region.slot >= SITE_SLOTS)
		region.slot = SITE_SLOTS - 1;
	if (region.is_open && (walk->autos & INSTRUMENT_AUTO_PARTITIONS)) {
		site = add_site(walk, slice_of(is_default ? "default" : "partition"), line->indent);
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

/* Adds a site for an operation of the selected kinds; NULL if it is another. */
static struct site *add_operation(struct walk *walk, const struct mlir_line *line)
{
	struct slice word;
	uint32_t kind = current(walk)->is_open ? operations_lookup(line->op, &word) : 0;

	/* Allocations without a value are not work, and scopes in the source are markers. */
	if (kind == INSTRUMENT_AUTO_ASM && slice_find(line->rest, "// proton."))
		return NULL;
	if (!(walk->autos & kind) || !operations_is_work(line))
		return NULL;
	return add_site(walk, word, line->indent);
}

static void open_line(struct walk *walk, const struct mlir_line *line, struct slice text)
{
	struct region region = *current(walk);

	if (walk->is_specializing && mlir_begins_partition(text)) {
		open_partition(walk, line, text);
		return;
	}
	region.is_partition = false;
	region.site = SITE_NONE;
	if (mlir_is_loop(line)) {
		region.depth++;
		if (region.is_open && (walk->autos & INSTRUMENT_AUTO_LOOPS)) {
			struct site *site = add_site(walk, slice_of("loop"), line->indent);

			if (site)
				site->cost = 2;
			region.site = site_index(walk, site);
		}
	} else if (slice_is(line->op, "tt.func")) {
		region.is_open = true; /* including noinline functions */
		walk->found->has_function = true;
	} else if (!slice_is(line->op, "scf.if")) {
		/* A region that defines a reduction or a scan, and is not code at this place. */
		region.site = site_index(walk, add_operation(walk, line));
		region.is_open = false;
	}
	open_region(walk, region);
}

static void close_line(struct walk *walk, const struct mlir_line *line, struct slice text)
{
	struct region closed = *current(walk);

	walk->region_count--;
	leave_block(walk);
	close_math(walk, &closed);
	if (mlir_opens_region(text)) { /* "} else {", "} do {" */
		open_region(walk, closed);
		return;
	}
	if (!closed.is_partition && closed.site != SITE_NONE) {
		struct site *site = &walk->found->sites[closed.site];

		site->end_line = walk->line;
		set_location(walk, site, line->location);
	}
	/* The operation's type follows the last partition. */
	walk->is_specializing = closed.is_partition && slice_find(text, " : ") == NULL;
}

/*
 * A run of arithmetic begins with an operation on tensors of floating-point numbers, and continues
 * up to the next operation of another kind.
 */
static void read_math(struct walk *walk, const struct mlir_line *line)
{
	uint32_t kind = operations_kind(line->op);
	struct slice name = line->op;
	bool is_math = slice_take(&name, "math.");

	if (kind) {
		walk->regions[walk->region_count - 1].has_dot |= kind == INSTRUMENT_AUTO_DOTS;
		walk->math = NULL;
	}
	is_math |= slice_take(&name, "arith.") && name.length && slice_end(name)[-1] == 'f';
	if (!(walk->autos & INSTRUMENT_AUTO_MATH) || !is_math || !current(walk)->is_open ||
	    !slice_find(line->rest, "tensor<"))
		return;
	if (!walk->math) {
		walk->math = add_site(walk, slice_of("math"), line->indent);
		if (!walk->math)
			return;
		walk->math->is_math = true;
		set_location(walk, walk->math, line->location);
	}
	walk->math->end_line = walk->line;
}

static void read_operation(struct walk *walk, const struct mlir_line *line)
{
	const struct region *region = current(walk);
	struct site *around = region->is_partition && region->site != SITE_NONE
				      ? &walk->found->sites[region->site]
				      : NULL;
	struct site *site;

	walk->is_specializing = slice_is(line->op, "ttg.warp_specialize");
	if (walk->region_count)
		read_math(walk, line);
	if (operations_is_unknown(line->op) && !walk->found->unknown_count++)
		walk->found->first_unknown = line->op;
	if (around)
		set_location_of_partition(walk, around, line->location);
	if (around && slice_is_any(line->op, "ttg.warp_yield ttg.warp_return")) {
		/* An empty partition gets no scope. */
		if (around->start_line + 1 < walk->line)
			around->end_line = walk->line;
		return;
	}
	site = add_operation(walk, line);
	if (site) {
		site->end_line = walk->line;
		set_location(walk, site, line->location);
	}
	place_operation(walk, line->location, site,
			operations_kind(line->op) == INSTRUMENT_AUTO_LOADS);
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
				mlir_number_after(text->trimmed, "\"ttg.num-warps\" = ");
		open_line(walk, &text->line, text->trimmed);
	} else if (text->line.op.length) {
		read_operation(walk, &text->line);
	}
}

/* The kernel's own location: the module's. */
static struct mlir_location place_of_kernel(const struct mlir_regions *lines)
{
	struct mlir_frames frames = {.count = 0};
	uint32_t last = lines->count;

	while (last > 1 &&
	       (!lines->at[last - 1].text.length || *lines->at[last - 1].text.at != '}'))
		last--;
	if (last > 1)
		frames = mlir_locations_frames(lines, lines->at[last - 1].line.location);
	return frames.count ? frames.at[0] : (struct mlir_location){.file = {"", 0}};
}

bool operations_find(const struct mlir_regions *lines, uint32_t autos, struct sites *out)
{
	struct walk *walk = calloc(1, sizeof(*walk));

	*out = (struct sites){.sites = calloc(SITES_MAX, sizeof(*out->sites))};
	if (walk && out->sites) {
		walk->found = out;
		walk->lines = lines;
		walk->kernel = place_of_kernel(lines);
		walk->autos = autos;
		for (; walk->line < lines->count; walk->line++)
			walk_line(walk, &lines->at[walk->line]);
	}
	free(walk);
	return walk && out->sites;
}

void operations_fini(struct sites *sites)
{
	for (uint32_t i = 0; i < sites->scope_count; i++)
		free(sites->scopes[i].name);
	free(sites->scopes);
	free(sites->sites);
	*sites = (struct sites){0};
}

/* ------------------------------------------------------------------ names and limits */

/* The location of `site` at a level: 0 is its own, 1 the call that inlined it, ... */
static struct mlir_location place_at(const struct site *site, uint32_t level)
{
	return level < site->frames.count ? site->frames.at[level] : (struct mlir_location){0};
}

/* True if both are the same operation, and inlined by the same calls below `level`. */
static bool is_same_below(const struct site *a, const struct site *b, uint32_t level)
{
	for (uint32_t i = 0; i < level; i++) {
		struct mlir_location left = place_at(a, i);
		struct mlir_location right = place_at(b, i);

		if (!mlir_is_same_line(&left, &right) || left.column != right.column)
			return false;
	}
	return a->part == b->part && slices_equal(a->word, b->word);
}

struct difference {
	bool in_line;
	bool in_column; /* on the same line */
};

/* How other sites that are the same below `level` differ there. */
static struct difference find_difference(const struct sites *sites, const struct site *site,
					 uint32_t level)
{
	struct mlir_location place = place_at(site, level);
	struct difference found = {false, false};

	for (uint32_t i = 0; i < sites->count && !(found.in_line && found.in_column); i++) {
		const struct site *other = &sites->sites[i];
		struct mlir_location there = place_at(other, level);

		if ((there.line == place.line && there.column == place.column &&
		     slices_equal(there.file, place.file)) ||
		    other->end_line == SITE_NONE || !is_same_below(site, other, level))
			continue;
		if (mlir_is_same_line(&place, &there))
			found.in_column = true;
		else
			found.in_line = true;
	}
	return found;
}

/*
 * OPERATION@FILE:LINE, with the column if the line has several, and with "from FILE:LINE" for each
 * call without which several operations had the same name. A long name is cut.
 */
static void write_name(const struct sites *sites, const struct site *site, char *name, size_t size)
{
	size_t used = (size_t)snprintf(name, size, "%.*s", (int)site->word.length, site->word.at);

	if (site->is_part)
		used += (size_t)snprintf(name + used, size - used, "%u", site->part);
	for (uint32_t level = 0; level < site->frames.count && used < size; level++) {
		const struct mlir_location *place = &site->frames.at[level];
		int length = place->file.length > 100 ? 100 : (int)place->file.length;
		struct difference difference = find_difference(sites, site, level);

		if (level && !difference.in_line && !difference.in_column)
			continue;
		used += (size_t)snprintf(name + used, size - used, "%s%.*s:%u",
					 level ? " from " : "@", length, place->file.at,
					 place->line);
		if (difference.in_column && place->column && used < size)
			used += (size_t)snprintf(name + used, size - used, ":%u", place->column);
	}
}

static uint32_t scope_of(struct sites *sites, const char *name)
{
	for (uint32_t i = 0; i < sites->scope_count; i++)
		if (sites->scopes[i].name && strcmp(sites->scopes[i].name, name) == 0)
			return i;
	sites->scopes[sites->scope_count].name = strdup(name);
	return sites->scopes[sites->scope_count].name ? sites->scope_count++ : SITE_NONE;
}

static bool is_detail(struct slice word)
{
	uint32_t kinds = operations_kinds_of_scope(word);

	return kinds && !(kinds & (INSTRUMENT_AUTO_LOADS | INSTRUMENT_AUTO_DOTS |
				   INSTRUMENT_AUTO_STORES | INSTRUMENT_AUTO_WAITS));
}

bool operations_name(struct sites *sites)
{
	char name[256];

	sites->scopes = calloc(sites->count ? sites->count : 1, sizeof(*sites->scopes));
	if (!sites->scopes)
		return false;
	for (uint32_t i = 0; i < sites->count; i++) {
		struct site *site = &sites->sites[i];

		site->scope = SITE_NONE;
		if (site->end_line == SITE_NONE)
			continue;
		write_name(sites, site, name, sizeof(name));
		site->scope = scope_of(sites, name);
		if (site->scope == SITE_NONE)
			return false;
		struct site_scope *scope = &sites->scopes[site->scope];
		scope->is_detail = is_detail(site->word);
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

static bool is_dropped_before(const struct site_scope *a, const struct site_scope *b)
{
	if (a->is_detail != b->is_detail)
		return a->is_detail;
	return a->depth >= b->depth;
}

uint32_t operations_limit(struct sites *sites, uint32_t scope_limit, uint32_t record_limit)
{
	uint32_t kept = 0;
	uint32_t costs[SITE_SLOTS] = {0};

	for (uint32_t i = 0; i < sites->scope_count; i++) {
		if (sites->scopes[i].dropped)
			continue;
		kept++;
		for (uint32_t slot = 0; slot < SITE_SLOTS; slot++)
			costs[slot] += sites->scopes[i].costs[slot];
	}
	while (kept > scope_limit || max_records(costs) > record_limit) {
		struct site_scope *worst = NULL;

		for (uint32_t i = 0; i < sites->scope_count; i++) {
			struct site_scope *scope = &sites->scopes[i];

			if (!scope->dropped && (!worst || is_dropped_before(scope, worst)))
				worst = scope;
		}
		if (!worst)
			break;
		worst->dropped = SITE_NO_ROOM;
		for (uint32_t slot = 0; slot < SITE_SLOTS; slot++)
			costs[slot] -= worst->costs[slot];
		kept--;
	}
	return max_records(costs);
}
