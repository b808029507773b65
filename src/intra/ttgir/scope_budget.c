/*
 * The budget of automatic scopes.
 *
 * Prices are in cycles of the warp that records. Prices of records were measured on an H200
 * (bench/intra.py). Where a loop has both dots and other arithmetic, as in flash attention, scopes
 * cost more there: the assembler does not move instructions across a clock read, so they overlap
 * less. The same applies to loads in loops without dots, and to such loops as a whole if they are
 * unrolled, whether the clock is read for the loop or for what follows.
 */
#include "intra/ttgir/scope_budget.h"

#include <stdlib.h>

#include "base/array.h"
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
	struct sites *sites;
	const struct mlir_regions *lines;
	const struct kernel_cost *cost;
	double *used;       /* by region: cycles that records take in one execution or iteration */
	double *limit;      /* by region; negative: none */
	uint32_t *order;    /* scopes, the preferred ones first */
	double *prices;     /* by scope, in the kernel; for `order` */
	double *executions; /* by site: the price of one */
	double *registers;  /* by scope; 0: it contains only other operations */
	double register_limit; /* for all of them; negative: none */
	bool *is_excluded;     /* by scope: it must not be chosen */
	uint32_t *ranks;       /* by scope; low numbers are preferred */
	double record_count;   /* maximum of a warp outside loops */
	uint32_t stride;       /* every n-th CTA records */
	bool has_ring;         /* a chosen scope is in a loop */
	bool has_sums;         /* instead of records in loops */
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

	return site->depth &&
	       (slice_is_any(slice_of(site->word), "load descriptor_load descriptor_gather") ||
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
	const uint32_t *regions = choosing->cost->region_of_line;
	uint32_t outside = regions[site->start_line];
	uint32_t at = outside;

	if (operations_kinds_of_scope(slice_of(site->word)) || site->end_line == SITE_NONE)
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
	const struct kernel_cost *cost = choosing->cost;
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
	uint32_t outside = choosing->cost->region_of_line[site->start_line];
	uint32_t at = choosing->sites->scopes[site->scope].is_detail ? loop_before(choosing, site)
								     : loop_of(choosing, site);

	return at == outside ? 0 : price_of_unrolled(choosing->cost, at);
}

static double price_of_site(const struct choosing *choosing, const struct site *site)
{
	uint32_t at = choosing->cost->region_of_line[site->start_line];
	const struct cost_region *region = &choosing->cost->regions[at];
	double cycles = site->cost > 1 ? site->cost * EVENT_CYCLES : EXECUTION_CYCLES;

	if (choosing->cost->is_amd)
		cycles += 2 * AMD_CLOCK_CYCLES;
	if (site->depth && region->has_dot && 3 * region->arithmetic > region->compute)
		cycles += OVERLAP_CYCLES;
	if (is_moved(choosing, site, region) && !region->has_dot)
		cycles += MOVED_CYCLES;
	return cycles + price_of_end(choosing, site);
}

/* Adds the executions of a scope to each region that they are in; `sign` -1 takes them back. */
static void add_scope(struct choosing *choosing, uint32_t scope, double sign)
{
	const struct kernel_cost *cost = choosing->cost;

	for (uint32_t i = 0; i < choosing->sites->count; i++) {
		const struct site *site = &choosing->sites->sites[i];
		double cycles;

		if (site->scope != scope)
			continue;
		cycles = sign * choosing->executions[i];
		for (uint32_t region = cost->region_of_line[site->start_line];
		     region != COST_NO_REGION; region = cost->regions[region].parent) {
			choosing->used[region] += cycles;
			cycles = sign * cost_limited(sign * cycles * cost->regions[region].trips);
		}
	}
}

/* Cycles at the end of each CTA that records. */
static double price_of_exit(const struct choosing *choosing, bool has_ring)
{
	const struct kernel_cost *cost = choosing->cost;
	double memory = kernel_cost_memory(cost, 0);
	double compute = cost->regions[0].compute;
	double bytes = has_ring && choosing->has_sums ? SUM_BYTES * choosing->sites->scope_count
		       : has_ring                     ? RING_BYTES
						      : RECORD_BYTES * choosing->record_count;
	double copied = kernel_cost_of_bytes(cost->warp_count * (HEADER_BYTES + bytes));

	/* Memory that waits for arithmetic copies for nothing. The CTAs on an SM share it. */
	copied -= compute > memory ? compute - memory : 0;
	return EXIT_CYCLES + (copied > 0 ? copied * kernel_cost_ctas(cost, 0) : 0);
}

static double cycles_used(const struct choosing *choosing, uint32_t region, bool has_ring)
{
	double used = choosing->used[region];

	if (region == 0)
		used += price_of_exit(choosing, has_ring) / choosing->stride;
	return used;
}

static bool is_in_loop(const struct sites *sites, uint32_t scope)
{
	return sites->scopes[scope].depth > 0;
}

static bool is_within(const struct choosing *choosing, bool has_ring)
{
	for (uint32_t region = 0; region < choosing->cost->count; region++)
		if (choosing->limit[region] >= 0 &&
		    cycles_used(choosing, region, has_ring) > choosing->limit[region])
			return false;
	return true;
}

/* ------------------------------------------------------------------ order */

/* Loops and partitions say most about a kernel. */
static uint32_t rank_of(const struct sites *sites, const struct site *site)
{
	uint32_t kinds = operations_kinds_of_scope(slice_of(site->word));

	if (!kinds)
		return 0;
	if (kinds & (INSTRUMENT_AUTO_WAITS | INSTRUMENT_AUTO_DOTS))
		return 1;
	return sites->scopes[site->scope].is_detail ? 3 : 2;
}

static bool comes_before(const struct choosing *choosing, uint32_t a, uint32_t b)
{
	if (choosing->ranks[a] != choosing->ranks[b])
		return choosing->ranks[a] < choosing->ranks[b];
	if (choosing->prices[a] != choosing->prices[b])
		return choosing->prices[a] < choosing->prices[b];
	return a < b;
}

static void sort_scopes(struct choosing *choosing)
{
	const struct sites *sites = choosing->sites;

	for (uint32_t i = 0; i < sites->count; i++)
		if (sites->sites[i].scope != SITE_NONE)
			choosing->ranks[sites->sites[i].scope] = rank_of(sites, &sites->sites[i]);
	for (uint32_t i = 0; i < sites->scope_count; i++) {
		uint32_t at = i;

		for (; at > 0 && comes_before(choosing, i, choosing->order[at - 1]); at--)
			choosing->order[at] = choosing->order[at - 1];
		choosing->order[at] = i;
	}
}

/* ------------------------------------------------------------------ preparation */

static bool init_choosing(struct choosing *choosing, uint32_t percent)
{
	const struct kernel_cost *cost = choosing->cost;
	uint32_t scopes = choosing->sites->scope_count;

	choosing->used = calloc(cost->count + 1, sizeof(double));
	choosing->limit = calloc(cost->count + 1, sizeof(double));
	choosing->order = calloc(scopes + 1, sizeof(*choosing->order));
	choosing->prices = calloc(scopes + 1, sizeof(double));
	choosing->executions = calloc(choosing->sites->count + 1, sizeof(double));
	choosing->registers = calloc(scopes + 1, sizeof(double));
	choosing->is_excluded = calloc(scopes + 1, sizeof(bool));
	choosing->ranks = calloc(scopes + 1, sizeof(*choosing->ranks));
	if (!choosing->used || !choosing->limit || !choosing->order || !choosing->prices ||
	    !choosing->executions || !choosing->registers || !choosing->is_excluded ||
	    !choosing->ranks)
		return false;
	for (uint32_t region = 0; region < cost->count; region++) {
		bool is_known = cost->regions[region].parent != COST_NO_REGION &&
				cost->regions[region].is_constant;

		choosing->limit[region] =
			is_known ? -1 : kernel_cost_cycles(cost, region) * percent / 100;
	}
	choosing->stride = 1;
	for (uint32_t i = 0; i < choosing->sites->count; i++) {
		const struct site *site = &choosing->sites->sites[i];

		if (!site->depth)
			choosing->record_count += site->cost;
		if (site->scope != SITE_NONE)
			choosing->executions[i] = price_of_site(choosing, site);
	}
	for (uint32_t i = 0; i < scopes; i++) {
		double before = choosing->used[0];

		add_scope(choosing, i, 1);
		choosing->prices[i] = choosing->used[0] - before;
		choosing->has_ring |= is_in_loop(choosing->sites, i);
	}
	sort_scopes(choosing);
	return true;
}

/* The smallest stride with which the ends of CTAs cost at most a quarter of the budget. */
static uint32_t stride_of(const struct choosing *choosing, uint32_t percent)
{
	double limit = kernel_cost_cycles(choosing->cost, 0) * percent / 100 * EXIT_SHARE;
	uint32_t stride = 1;

	while (stride < STRIDE_MAX && price_of_exit(choosing, choosing->has_ring) / stride > limit)
		stride *= 2;
	return stride;
}

static double percent_of(const struct choosing *choosing, uint32_t region)
{
	return 100 * cycles_used(choosing, region, choosing->has_ring) /
	       kernel_cost_cycles(choosing->cost, region);
}

/* The share of the kernel or of the loop that loses most. */
static double worst_percent(const struct choosing *choosing)
{
	double worst = 0;

	for (uint32_t region = 0; region < choosing->cost->count; region++)
		if (choosing->limit[region] >= 0 && percent_of(choosing, region) > worst)
			worst = percent_of(choosing, region);
	return worst;
}

/* ------------------------------------------------------------------ registers */

static void read_registers(struct choosing *choosing)
{
	const struct sites *sites = choosing->sites;

	for (uint32_t i = 0; i < sites->count; i++) {
		const struct site *site = &sites->sites[i];
		double registers;

		if (site->scope == SITE_NONE || !choosing->ranks[site->scope])
			continue;
		registers = kernel_cost_registers(choosing->cost,
						  &choosing->lines->at[site->start_line].line);
		/* Any operation between two clock reads may need some. */
		if (registers < 1)
			registers = 1;
		if (registers > choosing->registers[site->scope])
			choosing->registers[site->scope] = registers;
	}
}

static bool is_named(struct slice names, const char *name)
{
	while (names.length)
		if (slice_is(slice_take_until(&names, '\n'), name))
			return true;
	return false;
}

static void exclude(struct choosing *choosing, const struct scope_budget *budget)
{
	const struct sites *sites = choosing->sites;

	for (uint32_t i = 0; i < sites->scope_count; i++) {
		bool is_deep = budget->loop_levels && !choosing->ranks[i] &&
			       sites->scopes[i].depth >= budget->loop_levels;

		choosing->is_excluded[i] = is_deep ||
					   is_named(budget->without, sites->scopes[i].name);
	}
}

/* Registers of the chosen scopes. */
static double sum_registers(const struct choosing *choosing)
{
	const struct sites *sites = choosing->sites;
	double sum = 0;

	for (uint32_t i = 0; i < sites->scope_count; i++)
		sum += sites->scopes[i].is_dropped ? 0 : choosing->registers[i];
	return sum;
}

/* ------------------------------------------------------------------ the choice */

/* True if `a` is a better one than `b` to keep if none is within the budget. */
static bool is_cheaper(const struct choosing *choosing, uint32_t a, uint32_t b)
{
	const struct site_scope *scopes = choosing->sites->scopes;

	if (scopes[a].is_costly != scopes[b].is_costly)
		return scopes[b].is_costly;
	if (choosing->register_limit >= 0)
		return choosing->registers[a] < choosing->registers[b];
	return choosing->prices[a] < choosing->prices[b];
}

/* The scope to keep if none is within the budget; SITE_NONE if there is none. */
static uint32_t find_cheapest(const struct choosing *choosing)
{
	const struct sites *sites = choosing->sites;
	uint32_t best = SITE_NONE;

	for (uint32_t i = 0; i < sites->scope_count; i++) {
		uint32_t scope = choosing->order[i];

		if (!choosing->is_excluded[scope] &&
		    (best == SITE_NONE || is_cheaper(choosing, scope, best)))
			best = scope;
	}
	return best;
}

static void keep_scope(struct choosing *choosing, uint32_t scope)
{
	struct site_scope *kept = &choosing->sites->scopes[scope];

	kept->is_dropped = kept->is_costly = kept->is_heavy = false;
	choosing->has_ring |= is_in_loop(choosing->sites, scope);
}

static bool has_registers(const struct choosing *choosing, uint32_t scope, double used)
{
	return !choosing->is_excluded[scope] &&
	       (choosing->register_limit < 0 ||
		used + choosing->registers[scope] <= choosing->register_limit);
}

/* Registers are the reason for scopes that were kept before, or are within the time. */
static void choose_scopes(struct choosing *choosing)
{
	struct sites *sites = choosing->sites;
	double registers = 0;
	uint32_t kept = 0;
	uint32_t first;

	choosing->has_ring = false;
	for (uint32_t region = 0; region < choosing->cost->count; region++)
		choosing->used[region] = 0;
	for (uint32_t i = 0; i < sites->scope_count; i++) {
		uint32_t scope = choosing->order[i];
		struct site_scope *at = &sites->scopes[scope];
		bool has_ring = choosing->has_ring || is_in_loop(sites, scope);
		bool is_affordable;

		add_scope(choosing, scope, 1);
		is_affordable = is_within(choosing, has_ring);
		if (is_affordable && has_registers(choosing, scope, registers)) {
			registers += choosing->registers[scope];
			keep_scope(choosing, scope);
			kept++;
			continue;
		}
		add_scope(choosing, scope, -1);
		at->is_heavy = is_affordable || (choosing->register_limit >= 0 && !at->is_dropped);
		at->is_costly = !at->is_heavy;
		at->is_dropped = true;
	}
	first = kept ? SITE_NONE : find_cheapest(choosing);
	if (first != SITE_NONE) {
		keep_scope(choosing, first);
		add_scope(choosing, first, 1);
	}
}

static void apply_choice(struct choosing *choosing, bool can_stride, struct scope_budget *budget)
{
	const struct sites *sites = choosing->sites;

	budget->all = worst_percent(choosing);
	if (can_stride)
		choosing->stride = stride_of(choosing, budget->percent);
	choose_scopes(choosing);
	if (budget->registers_less || budget->without.length || budget->loop_levels) {
		read_registers(choosing);
		exclude(choosing, budget);
		choosing->register_limit = sum_registers(choosing) *
					   (100 - budget->registers_less) / 100;
		choose_scopes(choosing);
	}
	for (uint32_t i = 0; i < sites->scope_count; i++)
		budget->dropped += sites->scopes[i].is_costly;
	if (can_stride)
		choosing->stride = stride_of(choosing, budget->percent);
	budget->stride = choosing->stride;
	budget->kept = worst_percent(choosing);
}

int scope_budget_apply(struct slice text, bool can_stride, struct sites *sites,
		       struct scope_budget *budget, struct proton_error *err)
{
	struct mlir_regions lines;
	struct kernel_cost cost;
	struct choosing choosing = {
		.sites = sites,
		.lines = &lines,
		.cost = &cost,
		.register_limit = -1,
		.has_sums = budget->has_sums,
	};
	int status = mlir_regions_read(text, &lines, err);

	budget->stride = 1;
	if (status != PROTON_OK)
		return status;
	status = kernel_cost_read(&lines, &cost, err);
	if (status == PROTON_OK && cost.count) {
		if (init_choosing(&choosing, budget->percent))
			apply_choice(&choosing, can_stride, budget);
		else
			status = err_nomem(err);
		FREE_ALL(choosing.used, choosing.limit, choosing.order, choosing.prices,
			 choosing.executions, choosing.registers, choosing.is_excluded,
			 choosing.ranks);
	}
	if (status == PROTON_OK)
		kernel_cost_fini(&cost);
	mlir_regions_fini(&lines);
	return status;
}

void scope_budget_keep(struct sites *sites, struct slice names)
{
	for (uint32_t i = 0; i < sites->scope_count; i++) {
		struct site_scope *scope = &sites->scopes[i];

		scope->is_dropped = scope->is_costly = !is_named(names, scope->name);
		scope->is_heavy = false;
	}
}
