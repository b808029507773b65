/*
 * Scopes where markers do not survive Triton's passes: they are removed before and restored after.
 *
 * Warp specialization gives each partition a copy of the loop with only its operations. A marker
 * has no operands and no users, so it is dropped, copied into all partitions, or left where no
 * operation of its scope is. The pipeliner may reject a marker.
 *
 * To restore scopes, the provenance of each operation is read before: the scopes that it was in.
 * The location of an operation identifies the operation it was made from. Operations are visited
 * block by block. If an operation was in other scopes than the open ones, scopes are closed or
 * opened before it. An operation without a known location changes nothing: it is inside a scope if
 * it is between two operations of that scope.
 */
#include "intra/ttgir/ttgir.h"

#include "base/array.h"
#include "intra/ttgir/find_operations.h"

#define SITES_MAX 1024u
#define LOADS_MAX 256u /* maximum number of loads followed through views */

/* ------------------------------------------------------------------ removal */

/*
 * True if the loop that begins at line `first` has a marker, without the loops inside it, and will
 * be pipelined: Triton pipelines the loads of a loop that has dots, or if the kernel requests it.
 */
static bool is_marked_loop(const struct mlir_regions *lines, uint32_t first)
{
	uint32_t end = lines->at[first].end;
	bool has_marker = false, has_load = false;
	bool has_dot = slice_find(lines->at[end].trimmed, "tt.num_stages");
	struct marker marker;

	for (uint32_t i = first + 1; i < end; i++) {
		const struct mlir_region_line *text = &lines->at[i];

		if (!text->is_code || text->end != MLIR_NO_LINE) {
			i = text->is_code && mlir_is_loop(&text->line) ? text->end : i;
			continue;
		}
		uint32_t kind = operations_kind(text->line.op);
		has_load |= kind == INSTRUMENT_AUTO_LOADS;
		has_dot |= kind == INSTRUMENT_AUTO_DOTS;
		has_marker |= mlir_read_marker(&text->line, &marker);
	}
	return has_marker && has_load && has_dot;
}

int ttgir_strip_markers(const char *text, size_t length, enum ttgir_strip_markers when,
			struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {text, length};
	bool is_wanted = when == TTGIR_ALWAYS || slice_find(whole, "tt.warp_specialize");
	struct mlir_writer writer = {0};
	struct mlir_regions lines;
	struct marker marker;

	*result = (struct ttgir_result){0};
	TRY(mlir_regions_read(whole, &lines, err));
	out_init(&writer.out, -1);
	for (uint32_t i = 0; i < lines.count; i++) {
		const struct mlir_region_line *line = &lines.at[i];

		if (!line->is_code || !mlir_read_marker(&line->line, &marker))
			mlir_write_line(&writer, line->text);
		else
			result->scope_count++;
		if (when == TTGIR_FROM_LOOPS && !is_wanted && line->is_code &&
		    line->end != MLIR_NO_LINE && mlir_is_loop(&line->line))
			is_wanted = is_marked_loop(&lines, i);
	}
	mlir_regions_fini(&lines);
	return mlir_writer_finish(&writer, is_wanted && result->scope_count, &result->text,
				  &result->length, err);
}

/* ------------------------------------------------------------------ provenance */

/* Maximum number of scopes followed around one operation; deeper scopes are marked broken. */
#define ORIGIN_DEPTH_MAX 16u

/* One start of a scope or of an event. */
struct origin_site {
	struct marker marker; /* the start marker */
	/*
	 * The start and the end (or of another site of the same name) are in different blocks, so
	 * the scope's content is unknown.
	 */
	bool is_broken;
};

/* Indices of sites, in the order of their starts. */
struct origin_set {
	uint32_t sites[ORIGIN_DEPTH_MAX];
	uint32_t count;
};

struct origin {
	uint64_t key; /* mlir_locations_key() of the operation */
	struct origin_set set;
};

struct provenance {
	struct origin_site *sites;
	size_t site_count;
	struct origin *origins; /* by key */
	size_t count;
};

static bool set_has(const struct origin_set *set, uint32_t site)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (set->sites[i] == site)
			return true;
	return false;
}

static void keep_common(struct origin_set *set, const struct origin_set *other)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < set->count; i++)
		if (set_has(other, set->sites[i]))
			set->sites[kept++] = set->sites[i];
	set->count = kept;
}

/* ------------------------------------------------------------------ walking */

struct block {
	struct origin_set around; /* open at the region's start */
	bool is_body;             /* region of a function or a module */
};

struct load {
	struct slice result;
	struct origin_set set;
};

struct walk {
	struct provenance *out;
	struct mlir_regions lines;
	struct load loads[LOADS_MAX];
	uint32_t load_count;
	struct origin_set open;
	struct block blocks[MLIR_DEPTH_MAX];
	uint32_t block_count;
	uint32_t line;
	struct proton_error *err;
};

static int add_operation(struct walk *walk, struct slice location, const struct origin_set *set)
{
	uint64_t key = mlir_locations_key(&walk->lines, location);
	struct provenance *out = walk->out;

	if (!key)
		return PROTON_OK;
	return ARRAY_ADD(out->origins, out->count, (struct origin){key, *set})
		       ? PROTON_OK
		       : err_nomem(walk->err);
}

static int add_site(struct walk *walk, const struct marker *marker, bool is_broken)
{
	struct provenance *out = walk->out;
	uint32_t index = (uint32_t)out->site_count;

	if (index == SITES_MAX)
		return err_set(walk->err, PROTON_E_UNSUPPORTED,
			       "line %u: more than %u scope starts", walk->line + 1, SITES_MAX);
	if (walk->open.count == ORIGIN_DEPTH_MAX)
		is_broken = true;
	if (!ARRAY_ADD(out->sites, out->site_count, (struct origin_site){*marker, is_broken}))
		return err_nomem(walk->err);
	if (!is_broken)
		walk->open.sites[walk->open.count++] = index;
	return PROTON_OK;
}

/* An event never matches a scope of the same name. */
static bool is_of_same_scope(const struct marker *a, const struct marker *b)
{
	return a->is_event == b->is_event && strcmp(a->name, b->name) == 0;
}

/* Number of open scopes that were started outside the current block. */
static uint32_t count_around(const struct walk *walk)
{
	return walk->block_count ? walk->blocks[walk->block_count - 1].around.count : 0;
}

static int read_marker(struct walk *walk, const struct marker *marker)
{
	struct origin_set *open = &walk->open;

	if (!marker->is_end)
		return add_site(walk, marker, false);
	for (uint32_t i = open->count; i-- > count_around(walk);) {
		if (!is_of_same_scope(&walk->out->sites[open->sites[i]].marker, marker))
			continue;
		ARRAY_REMOVE(open->sites, open->count, i);
		return PROTON_OK;
	}
	return add_site(walk, marker, true);
}

/* Every scope started in the current block must also end in it. */
static void end_block(struct walk *walk)
{
	uint32_t around = count_around(walk);

	for (uint32_t i = around; i < walk->open.count; i++)
		walk->out->sites[walk->open.sites[i]].is_broken = true;
	walk->open.count = around;
}

static void begin_block(struct walk *walk, bool is_body)
{
	walk->blocks[walk->block_count++] = (struct block){walk->open, is_body};
}

static int close_line(struct walk *walk, const struct mlir_line *line, struct slice trimmed)
{
	end_block(walk);
	bool is_body = walk->blocks[--walk->block_count].is_body;
	if (mlir_opens_region(trimmed)) { /* "} else {" */
		begin_block(walk, is_body);
		return PROTON_OK;
	}
	return is_body ? PROTON_OK : add_operation(walk, line->location, &walk->open);
}

/* A view of a load's result: Triton merges it into the load, which then has the view's location. */
static int read_view(struct walk *walk, const struct mlir_line *line)
{
	struct slice rest = slice_trim(line->rest);
	struct slice operand = slice_take_until(&rest, ' ');

	for (uint32_t i = walk->load_count; i-- > 0;) {
		const struct load *load = &walk->loads[i];

		if (load->result.length && slices_equal(load->result, operand))
			return add_operation(walk, line->location, &load->set);
	}
	return PROTON_OK;
}

static int read_operation(struct walk *walk, const struct mlir_line *line)
{
	if (slice_is(line->op, "tt.trans") || slice_is(line->op, "tt.reshape"))
		return read_view(walk, line);
	if (!operations_is_work(line))
		return PROTON_OK;
	if ((slice_is(line->op, "tt.load") || slice_is(line->op, "tt.descriptor_load")) &&
	    walk->load_count < LOADS_MAX)
		walk->loads[walk->load_count++] = (struct load){line->result, walk->open};
	return add_operation(walk, line->location, &walk->open);
}

static int walk_line(struct walk *walk, const struct mlir_region_line *text)
{
	const struct mlir_line *line = &text->line;
	struct marker marker;

	if (!text->is_code)
		return PROTON_OK;
	if (mlir_closes_region(text->trimmed))
		return close_line(walk, line, text->trimmed);
	if (text->end != MLIR_NO_LINE) {
		begin_block(walk, slice_is(line->op, "tt.func") || walk->block_count == 0);
		return PROTON_OK;
	}
	if (text->trimmed.at[0] == '^') {
		end_block(walk);
		return PROTON_OK;
	}
	if (mlir_read_marker(line, &marker))
		return read_marker(walk, &marker);
	return read_operation(walk, line);
}

/* ------------------------------------------------------------------ results */

/*
 * If one site of a name is broken, all are: an operation's location does not tell which is meant.
 */
static void spread_broken(struct provenance *out)
{
	for (size_t i = 0; i < out->site_count; i++)
		for (size_t k = 0; k < out->site_count && !out->sites[i].is_broken; k++)
			if (out->sites[k].is_broken &&
			    is_of_same_scope(&out->sites[i].marker, &out->sites[k].marker))
				out->sites[i].is_broken = true;
}

ARRAY_ORDER(compare_origins, struct origin, ORDER_OF(a->key, b->key))

static void join_origins(struct provenance *out)
{
	size_t kept = 0;

	ARRAY_SORT(out->origins, out->count, compare_origins);
	for (size_t i = 0; i < out->count; i++) {
		if (kept && out->origins[kept - 1].key == out->origins[i].key)
			keep_common(&out->origins[kept - 1].set, &out->origins[i].set);
		else
			out->origins[kept++] = out->origins[i];
	}
	out->count = kept;
}

/*
 * Reads the scopes of `text`, which is TTIR with markers. An event counts as a scope from its start
 * to its end. Operations with equal locations are treated as one, which is in those scopes that all
 * of them are in. E_UNSUPPORTED, E_NOMEM.
 */
static int provenance_read(struct slice text, struct provenance *out, struct proton_error *err)
{
	AUTO_FREE struct walk *walk = calloc(1, sizeof(*walk));

	*out = (struct provenance){0};
	if (!walk)
		return err_nomem(err);
	walk->out = out;
	walk->err = err;
	int status = mlir_regions_read(text, &walk->lines, err);
	for (; status == PROTON_OK && walk->line < walk->lines.count; walk->line++)
		status = walk_line(walk, &walk->lines.at[walk->line]);
	mlir_regions_fini(&walk->lines);
	if (status != PROTON_OK)
		return status;
	spread_broken(out);
	join_origins(out);
	return PROTON_OK;
}

/* NULL if no operation has the key. */
static const struct origin_set *provenance_find(const struct provenance *provenance, uint64_t key)
{
	struct origin wanted = {.key = key};
	const struct origin *found = NULL;

	if (provenance->count && key)
		found = bsearch(&wanted, provenance->origins, provenance->count,
				sizeof(*provenance->origins), compare_origins);
	return found ? &found->set : NULL;
}

/* ------------------------------------------------------------------ insertions */

struct insertion {
	uint32_t line;
	uint32_t sequence;
	bool is_after;
	bool is_end;
	uint32_t site;
	struct slice indent;
	struct slice location;
};

struct relocation {
	const struct provenance *provenance;
	struct mlir_regions lines;
	struct insertion *insertions;
	uint32_t insertion_count;
	struct proton_error *err;
};

/* Position of the walk in a block. */
struct position {
	struct origin_set around; /* open at the block's start */
	struct origin_set open;   /* started in this block */
	uint32_t last;            /* line of the last operation with known scopes */
	struct slice location;    /* location of that operation */
};

static int add_insertion(struct relocation *re, struct insertion made)
{
	made.sequence = re->insertion_count;
	return ARRAY_ADD(re->insertions, re->insertion_count, made) ? PROTON_OK
								    : err_nomem(re->err);
}

/* Closes the open scopes that are not in `kept`, latest first. */
static int close_scopes(struct relocation *re, struct position *at, const struct origin_set *kept)
{
	int status = PROTON_OK;

	for (uint32_t i = at->open.count; i-- > 0 && status == PROTON_OK;) {
		uint32_t site = at->open.sites[i];

		if (set_has(kept, site))
			continue;
		status = add_insertion(re, (struct insertion){
						   .line = at->last,
						   .is_after = true,
						   .is_end = true,
						   .site = site,
						   .indent = re->lines.at[at->last].line.indent,
						   .location = at->location,
					   });
		ARRAY_REMOVE(at->open.sites, at->open.count, i);
	}
	return status;
}

static int close_all(struct relocation *re, struct position *at)
{
	static const struct origin_set nothing;

	return close_scopes(re, at, &nothing);
}

/* The operation from line `first` to `last` was in the scopes of `wanted`. */
static int visit_work(struct relocation *re, struct position *at, uint32_t first, uint32_t last,
		      struct slice location, const struct origin_set *wanted)
{
	int status = close_scopes(re, at, wanted);

	for (uint32_t i = 0; i < wanted->count && status == PROTON_OK; i++) {
		uint32_t site = wanted->sites[i];

		if (re->provenance->sites[site].is_broken || set_has(&at->around, site) ||
		    set_has(&at->open, site) || at->open.count == ORIGIN_DEPTH_MAX)
			continue;
		status = add_insertion(re, (struct insertion){
						   .line = first,
						   .site = site,
						   .indent = re->lines.at[first].line.indent,
						   .location = location,
					   });
		at->open.sites[at->open.count++] = site;
	}
	at->last = last;
	at->location = location;
	return status;
}

static const struct origin_set *scopes_of(const struct relocation *re, struct slice location)
{
	return provenance_find(re->provenance, mlir_locations_key(&re->lines, location));
}

/* ------------------------------------------------------------------ walking */

static int visit_block(struct relocation *re, uint32_t *line, const struct position *around);

static bool has_blocks(const struct mlir_region_line *text)
{
	return mlir_begins_partition(text->trimmed) || mlir_is_loop(&text->line) ||
	       slice_is(text->line.op, "scf.if");
}

/* An operation with regions that begins at line `first`. */
static int visit_regions(struct relocation *re, struct position *at, uint32_t first)
{
	const struct mlir_region_line *text = &re->lines.at[first];
	struct slice location = re->lines.at[text->end].line.location;
	const struct origin_set *scopes = NULL;
	int status = PROTON_OK;

	if (!mlir_begins_partition(text->trimmed))
		scopes = scopes_of(re, location);
	if (scopes)
		status = visit_work(re, at, first, text->end, location, scopes);
	if (!has_blocks(text))
		return status;
	if (!scopes)
		status = close_all(re, at); /* operations inside may be in other scopes */
	for (uint32_t i = first; i < text->end && status == PROTON_OK;) {
		i++;
		status = visit_block(re, &i, at);
	}
	return status;
}

static int visit_line(struct relocation *re, struct position *at, uint32_t number)
{
	const struct mlir_region_line *text = &re->lines.at[number];

	if (text->trimmed.at[0] == '^')
		return close_all(re, at);
	if (text->end != MLIR_NO_LINE)
		return visit_regions(re, at, number);
	const struct origin_set *scopes =
		operations_is_work(&text->line) ? scopes_of(re, text->line.location) : NULL;
	if (scopes)
		return visit_work(re, at, number, number, text->line.location, scopes);
	if (at->open.count && operations_kind(text->line.op) == INSTRUMENT_AUTO_LOADS)
		at->last = number; /* its part of a copy, after the wait for a buffer */
	return PROTON_OK;
}

/* Visits lines from *line up to the end of the block, which *line then names. */
static int visit_block(struct relocation *re, uint32_t *line, const struct position *around)
{
	struct position at = {.last = MLIR_NO_LINE};
	int status = PROTON_OK;

	if (around) {
		at.around = around->around;
		for (uint32_t i = 0; i < around->open.count; i++)
			if (at.around.count < ORIGIN_DEPTH_MAX)
				at.around.sites[at.around.count++] = around->open.sites[i];
	}
	for (; *line < re->lines.count && status == PROTON_OK; ++*line) {
		const struct mlir_region_line *text = &re->lines.at[*line];

		if (!text->is_code)
			continue;
		if (mlir_closes_region(text->trimmed))
			break;
		status = visit_line(re, &at, *line);
		if (text->end != MLIR_NO_LINE)
			*line = text->end;
	}
	return status == PROTON_OK ? close_all(re, &at) : status;
}

static int visit_functions(struct relocation *re)
{
	int status = PROTON_OK;

	for (uint32_t i = 0; i < re->lines.count && status == PROTON_OK; i++) {
		const struct mlir_region_line *text = &re->lines.at[i];
		uint32_t inner = i + 1;

		if (text->end == MLIR_NO_LINE || !slice_is(text->line.op, "tt.func"))
			continue;
		status = visit_block(re, &inner, NULL);
		i = text->end;
	}
	return status;
}

/* ------------------------------------------------------------------ writing */

ARRAY_ORDER(compare_insertions, struct insertion,
	    ORDER_OF(a->line, b->line) ?: ORDER_OF(a->is_after, b->is_after)
					       ?: ORDER_OF(a->sequence, b->sequence))

/* Writes the insertions before or after the line, from *next on. */
static void write_insertions(const struct relocation *re, struct mlir_writer *writer, uint32_t line,
			     bool is_after, uint32_t *next)
{
	for (; *next < re->insertion_count; ++*next) {
		const struct insertion *made = &re->insertions[*next];
		struct marker marker = re->provenance->sites[made->site].marker;

		if (made->line != line || made->is_after != is_after)
			return;
		marker.is_end = made->is_end;
		mlir_write_marker(writer, made->indent, made->location, &marker);
	}
}

static int write_text(struct relocation *re, struct slice text, struct ttgir_result *result)
{
	struct mlir_writer writer;
	uint32_t next = 0;

	TRY(mlir_writer_init(&writer, text, false, re->err));
	ARRAY_SORT(re->insertions, re->insertion_count, compare_insertions);
	for (uint32_t i = 0; i < re->lines.count; i++) {
		write_insertions(re, &writer, i, false, &next);
		mlir_write_line(&writer, re->lines.at[i].text);
		write_insertions(re, &writer, i, true, &next);
	}
	return mlir_writer_finish(&writer, true, &result->text, &result->length, re->err);
}

static int relocate(struct relocation *re, struct slice text, struct ttgir_result *result)
{
	int status = mlir_regions_read(text, &re->lines, re->err);

	if (status == PROTON_OK)
		status = visit_functions(re);
	if (status == PROTON_OK && re->insertion_count)
		status = write_text(re, text, result);
	return status;
}

int ttgir_restore_scopes(const char *before, size_t before_length, const char *after,
			 size_t after_length, struct ttgir_result *result, struct proton_error *err)
{
	struct slice whole = {before, before_length};
	struct relocation re = {.err = err};
	struct provenance provenance;

	*result = (struct ttgir_result){0};
	int status = provenance_read(whole, &provenance, err);
	re.provenance = &provenance;
	if (status == PROTON_OK && provenance.site_count)
		status = relocate(&re, (struct slice){after, after_length}, result);
	mlir_regions_fini(&re.lines);
	free(re.insertions);
	FREE_ALL(provenance.sites, provenance.origins);
	if (status != PROTON_OK)
		ttgir_result_fini(result);
	return status;
}
