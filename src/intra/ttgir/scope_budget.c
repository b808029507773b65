/*
 * The budget of automatic scopes.
 *
 * Prices are in cycles of the warp that records. Prices of records were measured on an H200
 * (bench/intra.py). Where a loop has both dots and other arithmetic, as in flash attention, scopes
 * cost more there: the assembler does not move instructions across a clock read, so they overlap
 * less. The same applies to loads in loops without dots, and to such loops as a whole if they are
 * unrolled, whether the clock is read for the loop or for what follows.
 */

#include "base/array.h"
#include "intra/ttgir/find_operations.h"
#include "intra/ttgir/kernel_cost.h"

#define EXECUTION_CYCLES 21.0 /* two clock reads and a record */
#define EVENT_CYCLES 14.0     /* a clock read and a record, at the start and at the end */
#define OVERLAP_CYCLES 100.0
#define MOVED_CYCLES 400.0
/* AMD: reading the clock takes longer. From documentation, not measured. */
#define AMD_CLOCK_CYCLES 40.0
/*
 * At the end of a CTA: reading clocks and copying, and the bytes of each warp. If loops record, a
 * ring buffer has RING_BYTES, as llvm_pass.c chooses; with sums, each scope has SUM_BYTES.
 */
#define EXIT_CYCLES 570.0
#define HEADER_BYTES 64.0
#define RECORD_BYTES 8.0
#define RING_BYTES 4096.0
#define SUM_BYTES 16.0
/* Every n-th CTA records, up to this n: a small grid should have some. */
#define STRIDE_MAX 16u
/* The part of the budget that the ends of CTAs may take. */
#define EXIT_SHARE 0.25
/* LLVM unrolls shorter loops. The share of such a loop that a clock read at its end costs. */
#define UNROLLED_TRIPS 64u
#define UNROLLED_SHARE 0.25
/* Operations in which the warps of a CTA usually wait for each other. */
#define WAITING                                                                                    \
	(INSTRUMENT_AUTO_REDUCE | INSTRUMENT_AUTO_SCAN | INSTRUMENT_AUTO_CONVERT |                 \
	 INSTRUMENT_AUTO_LOCAL)

struct choosing {
	const struct mlir_regions *lines;
	const struct instrument_mode *mode;
	struct sites *sites;
	struct kernel_cost cost;
	struct site_scope **order; /* the preferred ones first */
	double register_limit;     /* for all of them; negative: none */
	double record_count;       /* maximum of a warp outside loops */
	uint32_t stride;           /* every n-th CTA records */
	bool has_ring;             /* a chosen scope is in a loop */
};

/* ------------------------------------------------------------------ prices */

/*
 * Loads into registers, which the assembler moves before loads of earlier iterations, and details
 * in loops with loads, which it moves them across.
 */
static bool is_moved(const struct choosing *choosing, const struct site *site,
		     const struct cost_region *region)
{
	bool is_detail = choosing->sites->scopes[site->scope].is_detail;

	return site->depth && (slice_is_any(site->word, "load descriptor_load descriptor_gather") ||
			       (region->has_load && is_detail));
}

/* A share of an unrolled loop with loads; 0 for other regions. */
static double price_of_unrolled(const struct kernel_cost *cost, uint32_t at)
{
	const struct cost_region *region = &cost->regions[at];

	if (!region->has_load || region->has_dot || !region->is_constant ||
	    region->parent == COST_NO_REGION || region->trips > UNROLLED_TRIPS)
		return 0;
	return UNROLLED_SHARE * kernel_cost_cycles(cost, at) * region->trips;
}

/* The loop that the site is the scope of; the region around it for other sites. */
static uint32_t loop_of(const struct choosing *choosing, const struct site *site)
{
	const uint32_t *regions = choosing->cost.region_of_line;
	uint32_t outside = regions[site->start_line];
	uint32_t at = outside;

	if (operations_kinds_of_scope(site->word) || site->end_line == SITE_NONE)
		return outside;
	for (uint32_t i = site->start_line; at == outside && i <= site->end_line; i++)
		at = regions[i];
	return at;
}

/*
 * The loop that ends before the site, without operations between in which warps wait for each
 * other: the assembler mixes instructions only up to there. The region around it if there is none.
 */
static uint32_t loop_before(const struct choosing *choosing, const struct site *site)
{
	const struct kernel_cost *cost = &choosing->cost;
	uint32_t outside = cost->region_of_line[site->start_line];

	for (uint32_t i = site->start_line; i-- > 0;) {
		const struct mlir_region_line *line = &choosing->lines->at[i];
		uint32_t at = cost->region_of_line[i];

		if (at != outside)
			return cost->regions[at].parent == outside ? at : outside;
		if (line->is_code && operations_kind(line->line.op) & WAITING)
			break;
	}
	return outside;
}

/*
 * The price of a scope that ends the instructions of an unrolled loop with loads: the loop's price,
 * and the price of a detail after it.
 */
static double price_of_end(const struct choosing *choosing, const struct site *site)
{
	uint32_t outside = choosing->cost.region_of_line[site->start_line];
	uint32_t at = choosing->sites->scopes[site->scope].is_detail ? loop_before(choosing, site)
								     : loop_of(choosing, site);

	return at == outside ? 0 : price_of_unrolled(&choosing->cost, at);
}

static double price_of_site(const struct choosing *choosing, const struct site *site)
{
	uint32_t at = choosing->cost.region_of_line[site->start_line];
	const struct cost_region *region = &choosing->cost.regions[at];
	double cycles = site->cost > 1 ? site->cost * EVENT_CYCLES : EXECUTION_CYCLES;

	if (choosing->cost.is_amd)
		cycles += 2 * AMD_CLOCK_CYCLES;
	if (site->depth && region->has_dot && 3 * region->arithmetic > region->compute)
		cycles += OVERLAP_CYCLES;
	if (is_moved(choosing, site, region) && !region->has_dot)
		cycles += MOVED_CYCLES;
	return cycles + price_of_end(choosing, site);
}

/* Adds the executions of a scope to each region that they are in; `sign` -1 takes them back. */
static void add_scope(struct choosing *choosing, const struct site_scope *scope, double sign)
{
	const struct sites *sites = choosing->sites;
	const struct kernel_cost *cost = &choosing->cost;

	ARRAY_EACH(site, sites->sites, sites->count) {
		double cycles = sign * site->price;

		if (site->scope != scope - sites->scopes)
			continue;
		for (uint32_t region = cost->region_of_line[site->start_line];
		     region != COST_NO_REGION; region = cost->regions[region].parent) {
			cost->regions[region].used += cycles;
			cycles = sign * cost_limited(sign * cycles * cost->regions[region].trips);
		}
	}
}

/* Cycles at the end of each CTA that records. */
static double price_of_exit(const struct choosing *choosing, bool has_ring)
{
	const struct kernel_cost *cost = &choosing->cost;
	double memory = kernel_cost_memory(cost, 0);
	double compute = cost->regions[0].compute;
	double bytes = RECORD_BYTES * choosing->record_count;

	if (has_ring && choosing->mode->tree != INSTRUMENT_TREE_RECORDS)
		bytes = SUM_BYTES * choosing->sites->scope_count;
	else if (has_ring)
		bytes = RING_BYTES;
	double copied = kernel_cost_of_bytes(cost->warp_count * (HEADER_BYTES + bytes));
	/* Memory that waits for arithmetic copies for nothing. The CTAs on an SM share it. */
	copied -= compute > memory ? compute - memory : 0;
	return EXIT_CYCLES + (copied > 0 ? copied * kernel_cost_ctas(cost, 0) : 0);
}

static double cycles_used(const struct choosing *choosing, uint32_t region, bool has_ring)
{
	double used = choosing->cost.regions[region].used;

	if (region == 0)
		used += price_of_exit(choosing, has_ring) / choosing->stride;
	return used;
}

static bool is_within(const struct choosing *choosing, bool has_ring)
{
	for (uint32_t region = 0; region < choosing->cost.count; region++) {
		double limit = choosing->cost.regions[region].limit;

		if (limit >= 0 && cycles_used(choosing, region, has_ring) > limit)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ preparation */

/* Loops and partitions say most about a kernel. */
static uint32_t rank_of(const struct sites *sites, const struct site *site)
{
	uint32_t kinds = operations_kinds_of_scope(site->word);

	if (!kinds)
		return 0;
	if (kinds & (INSTRUMENT_AUTO_WAITS | INSTRUMENT_AUTO_DOTS))
		return 1;
	return sites->scopes[site->scope].is_detail ? 3 : 2;
}

ARRAY_ORDER(compare_scopes, struct site_scope *const,
	    ORDER_OF((*a)->rank, (*b)->rank) ?: ORDER_OF((*a)->price, (*b)->price)
						?: ORDER_OF(*a, *b))

static bool init_choosing(struct choosing *choosing)
{
	struct sites *sites = choosing->sites;

	choosing->order = calloc(sites->scope_count + 1, sizeof(void *));
	if (!choosing->order)
		return false;
	for (uint32_t i = 0; i < choosing->cost.count; i++) {
		struct cost_region *region = &choosing->cost.regions[i];
		bool is_known = region->parent != COST_NO_REGION && region->is_constant;

		region->limit = is_known ? -1
					 : kernel_cost_cycles(&choosing->cost, i) *
						   choosing->mode->budget / 100;
	}
	for (uint32_t i = 0; i < sites->count; i++) {
		struct site *site = &sites->sites[i];

		if (!site->depth)
			choosing->record_count += site->cost;
		if (site->scope == SITE_NONE)
			continue;
		site->price = price_of_site(choosing, site);
		sites->scopes[site->scope].rank = rank_of(sites, site);
	}
	for (uint32_t i = 0; i < sites->scope_count; i++) {
		struct site_scope *scope = choosing->order[i] = &sites->scopes[i];
		double before = choosing->cost.regions[0].used;

		add_scope(choosing, scope, 1);
		scope->price = choosing->cost.regions[0].used - before;
		choosing->has_ring |= scope->depth > 0;
	}
	ARRAY_SORT(choosing->order, sites->scope_count, compare_scopes);
	return true;
}

/* The smallest stride with which the ends of CTAs cost at most a quarter of the budget. */
static void choose_stride(struct choosing *choosing)
{
	double limit = kernel_cost_cycles(&choosing->cost, 0) * choosing->mode->budget / 100 *
		       EXIT_SHARE;
	double price = price_of_exit(choosing, choosing->has_ring);

	if (choosing->mode->cta_stride == 1)
		for (choosing->stride = 1;
		     choosing->stride < STRIDE_MAX && price / choosing->stride > limit;)
			choosing->stride *= 2;
}

/* The share in percent of the kernel or of the loop that loses most. */
static double worst_percent(const struct choosing *choosing)
{
	double worst = 0;

	for (uint32_t region = 0; region < choosing->cost.count; region++) {
		double percent = 100 * cycles_used(choosing, region, choosing->has_ring) /
				 kernel_cost_cycles(&choosing->cost, region);

		if (choosing->cost.regions[region].limit >= 0 && percent > worst)
			worst = percent;
	}
	return worst;
}

/* ------------------------------------------------------------------ registers */

static void read_registers(struct choosing *choosing)
{
	const struct sites *sites = choosing->sites;

	ARRAY_EACH(site, sites->sites, sites->count) {
		if (site->scope == SITE_NONE || !sites->scopes[site->scope].rank)
			continue;
		struct site_scope *scope = &sites->scopes[site->scope];
		double registers = kernel_cost_registers(
			&choosing->cost, &choosing->lines->at[site->start_line].line);
		/* Any operation between two clock reads may need some. */
		if (registers < 1)
			registers = 1;
		if (registers > scope->registers)
			scope->registers = registers;
	}
}

static bool is_named(struct slice names, const char *name)
{
	while (names.length)
		if (slice_is(slice_take_until(&names, '\n'), name))
			return true;
	return false;
}

/* Excludes scopes, and limits registers to a share of the sum for the chosen scopes. */
static void limit_scopes(struct choosing *choosing, const struct ttgir_insertion *how)
{
	double registers = 0;

	for (uint32_t i = 0; i < choosing->sites->scope_count; i++) {
		struct site_scope *scope = &choosing->sites->scopes[i];
		bool is_deep = how->loop_levels && !scope->rank && scope->depth >= how->loop_levels;

		scope->is_excluded = is_deep || is_named(how->without, scope->name);
		registers += scope->dropped ? 0 : scope->registers;
	}
	choosing->register_limit = registers * (100 - how->registers_less) / 100;
}

/* ------------------------------------------------------------------ the choice */

/* True if `a` is a better one than `b` to keep if none is within the budget. */
static bool is_cheaper(const struct choosing *choosing, const struct site_scope *a,
		       const struct site_scope *b)
{
	if ((a->dropped == SITE_COSTLY) != (b->dropped == SITE_COSTLY))
		return b->dropped == SITE_COSTLY;
	if (choosing->register_limit >= 0)
		return a->registers < b->registers;
	return a->price < b->price;
}

/* The scope to keep if none is within the budget, or NULL. */
static struct site_scope *find_cheapest(const struct choosing *choosing)
{
	struct site_scope *best = NULL;

	for (uint32_t i = 0; i < choosing->sites->scope_count; i++) {
		struct site_scope *scope = choosing->order[i];

		if (!scope->is_excluded && (!best || is_cheaper(choosing, scope, best)))
			best = scope;
	}
	return best;
}

static void keep_scope(struct choosing *choosing, struct site_scope *scope)
{
	scope->dropped = SITE_KEPT;
	choosing->has_ring |= scope->depth > 0;
}

static bool has_registers(const struct choosing *choosing, const struct site_scope *scope,
			  double used)
{
	return !scope->is_excluded && (choosing->register_limit < 0 ||
				       used + scope->registers <= choosing->register_limit);
}

/* Registers are the reason for scopes that were kept before, or are within the time. */
static void choose_scopes(struct choosing *choosing)
{
	double registers = 0;
	bool is_any = false;

	choosing->has_ring = false;
	for (uint32_t region = 0; region < choosing->cost.count; region++)
		choosing->cost.regions[region].used = 0;
	for (uint32_t i = 0; i < choosing->sites->scope_count; i++) {
		struct site_scope *scope = choosing->order[i];

		add_scope(choosing, scope, 1);
		bool is_affordable = is_within(choosing, choosing->has_ring || scope->depth > 0);
		if (is_affordable && has_registers(choosing, scope, registers)) {
			registers += scope->registers;
			keep_scope(choosing, scope);
			is_any = true;
			continue;
		}
		add_scope(choosing, scope, -1);
		scope->dropped = is_affordable || (choosing->register_limit >= 0 && !scope->dropped)
					 ? SITE_HEAVY
					 : SITE_COSTLY;
	}
	struct site_scope *first = is_any ? NULL : find_cheapest(choosing);
	if (first) {
		keep_scope(choosing, first);
		add_scope(choosing, first, 1);
	}
}

static void apply_choice(struct choosing *choosing, const struct ttgir_insertion *how,
			 struct scope_budget *out)
{
	out->all = worst_percent(choosing);
	choose_stride(choosing);
	choose_scopes(choosing);
	if (how->registers_less || how->without.length || how->loop_levels) {
		read_registers(choosing);
		limit_scopes(choosing, how);
		choose_scopes(choosing);
	}
	for (uint32_t i = 0; i < choosing->sites->scope_count; i++)
		out->dropped += choosing->sites->scopes[i].dropped == SITE_COSTLY;
	choose_stride(choosing);
	out->stride = choosing->stride;
	out->kept = worst_percent(choosing);
}

int scope_budget_apply(const struct mlir_regions *lines, const struct instrument_mode *mode,
		       const struct ttgir_insertion *how, struct sites *sites,
		       struct scope_budget *out, struct proton_error *err)
{
	struct choosing choosing = {
		.lines = lines,
		.mode = mode,
		.sites = sites,
		.register_limit = -1,
		.stride = 1,
	};
	int status = kernel_cost_read(lines, &choosing.cost, err);

	*out = (struct scope_budget){.stride = 1};
	if (status == PROTON_OK && choosing.cost.count) {
		if (init_choosing(&choosing))
			apply_choice(&choosing, how, out);
		else
			status = err_nomem(err);
	}
	free(choosing.order);
	kernel_cost_fini(&choosing.cost);
	return status;
}

void scope_budget_keep(struct sites *sites, struct slice names)
{
	for (uint32_t i = 0; i < sites->scope_count; i++) {
		struct site_scope *scope = &sites->scopes[i];

		scope->dropped = is_named(names, scope->name) ? SITE_KEPT : SITE_COSTLY;
	}
}
