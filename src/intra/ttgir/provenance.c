/* Reading the scopes of TTIR: which operations are inside which scopes. */
#include "intra/ttgir/provenance.h"

#include <stdlib.h>

#include "base/array.h"

#define SITES_MAX 1024u
#define LOADS_MAX 256u /* maximum number of loads followed through views */

/* ------------------------------------------------------------------ operations */

bool provenance_is_work(const struct mlir_line *line)
{
	static const char views[] =
		"arith.constant cf.br cf.cond_br scf.condition tt.broadcast tt.expand_dims "
		"tt.get_num_programs tt.get_program_id tt.make_range tt.reshape tt.splat tt.trans "
		"tt.unsplat ttg.local_dealloc ttg.warp_specialize ttng.init_barrier "
		"ttng.inval_barrier ttng.reinterpret_tensor_descriptor";
	struct slice op = line->op;

	if (!op.length || slice_is_any(op, views) || slice_ends(op, "return") ||
	    slice_ends(op, "yield") || slice_find(op, ".memdesc_") ||
	    slice_find(op, "rocdl.") == op.at)
		return false;
	if (slice_ends(op, "_alloc")) /* only an allocation with an initial value */
		return slice_find(line->rest, "(tensor<") != NULL;
	if (slice_take(&op, "arith.") || slice_take(&op, "math."))
		return slice_find(line->rest, "tensor<") != NULL;
	return true;
}

bool provenance_read_marker(const struct mlir_line *line, struct marker *out)
{
	struct slice text = slice_trim(line->rest);

	if (!slice_is(line->op, "tt.elementwise_inline_asm") || mlir_opens_region(text) ||
	    !slice_take(&text, "\"") || !slice_find(text, "\""))
		return false;
	text = slice_take_until(&text, '"');
	return marker_parse(text.at, text.length, out);
}

/* ------------------------------------------------------------------ sets */

bool provenance_set_has(const struct origin_set *set, uint32_t site)
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
		if (provenance_set_has(other, set->sites[i]))
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
	size_t site_capacity;
	size_t capacity;
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
	return ARRAY_ADD(out->origins, walk->capacity, out->count, (struct origin){key, *set})
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
	if (!ARRAY_ADD(out->sites, walk->site_capacity, out->site_count,
		       (struct origin_site){*marker, is_broken}))
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
		memmove(&open->sites[i], &open->sites[i + 1],
			(open->count - i - 1) * sizeof(open->sites[0]));
		open->count--;
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
	bool is_body;

	end_block(walk);
	is_body = walk->blocks[--walk->block_count].is_body;
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
	if (!provenance_is_work(line))
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
	if (provenance_read_marker(line, &marker))
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

static int compare_origins(const void *a, const void *b)
{
	uint64_t left = ((const struct origin *)a)->key;
	uint64_t right = ((const struct origin *)b)->key;

	return ORDER_OF(left, right);
}

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

int provenance_read(struct slice text, struct provenance *out, struct proton_error *err)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	int status;

	*out = (struct provenance){0};
	if (!walk)
		return err_nomem(err);
	walk->out = out;
	walk->err = err;
	status = mlir_regions_read(text, &walk->lines, err);
	for (; status == PROTON_OK && walk->line < walk->lines.count; walk->line++)
		status = walk_line(walk, &walk->lines.at[walk->line]);
	mlir_regions_fini(&walk->lines);
	free(walk);
	if (status != PROTON_OK) {
		provenance_fini(out);
		return status;
	}
	spread_broken(out);
	join_origins(out);
	return PROTON_OK;
}

const struct origin_set *provenance_find(const struct provenance *provenance, uint64_t key)
{
	struct origin wanted = {.key = key};
	const struct origin *found = NULL;

	if (provenance->count && key)
		found = bsearch(&wanted, provenance->origins, provenance->count,
				sizeof(*provenance->origins), compare_origins);
	return found ? &found->set : NULL;
}

void provenance_fini(struct provenance *provenance)
{
	free(provenance->sites);
	free(provenance->origins);
	*provenance = (struct provenance){0};
}
