/* Static estimate of how long a kernel and its loops take. */
#include "intra/ttgir/kernel_cost.h"

#include "base/array.h"
#include "intra/ttgir/find_operations.h"

/*
 * Iterations of a loop with bounds that are not constant. Loops without dots often run only once or
 * twice, over a row that does not fit into one block.
 */
#define TRIPS_OF_DOTS 32u
#define TRIPS_ASSUMED 2u
#define TRIPS_MAX 1000000u
#define SHAPES_MAX 4u

/* Work of an SM in one cycle: bytes of global and of shared memory, results of arithmetic. */
#define GLOBAL_BYTES 24.0
#define CACHED_BYTES 48.0 /* kernels with dots read mostly from the L2 cache */
#define SHARED_BYTES 128.0
#define SIMPLE_RESULTS 128.0
#define SPECIAL_RESULTS 16.0 /* exponentials, roots, divisions */
/* The part of the tensor cores' peak rate that kernels reach. */
#define DOT_EFFICIENCY 0.6
/* Cycles until something else can begin. */
#define LAUNCH_LATENCY 600.0
#define LOAD_LATENCY 400.0
#define BARRIER_LATENCY 30.0
#define SCALAR_LATENCY 4.0
#define CALL_LATENCY 100.0
/*
 * Warps that usually run on an SM at once, and hide each other's latencies. Kernels with dots need
 * too many registers for that.
 */
#define WARPS_WITHOUT_DOTS 48u

struct shape {
	double elements;
	double columns; /* the last dimension */
	uint32_t bits;  /* per element */
};

struct reading {
	const struct mlir_regions *lines;
	struct kernel_cost *cost;
	double multiplications; /* per cycle, of dots with 16 bits */
	uint32_t open[MLIR_DEPTH_MAX];
	uint32_t depth;
};

/* ------------------------------------------------------------------ types */

static uint32_t bits_of(struct slice type)
{
	uint32_t bits = 0;

	slice_take(&type, "!tt.ptr<");
	while (type.length && (*type.at < '0' || *type.at > '9') && *type.at != '>')
		slice_skip(&type, 1);
	return slice_take_number(&type, 128, &bits) && bits ? bits : 32;
}

/* "128x64xf16, ..." without its "<"; false if it is not a shape. */
static bool read_shape(struct slice text, struct shape *out)
{
	uint32_t dimension;
	uint32_t count = 0;

	*out = (struct shape){.elements = 1, .columns = 1};
	while (slice_take_number(&text, 1u << 20, &dimension) && slice_take(&text, "x")) {
		out->elements *= dimension;
		out->columns = dimension;
		count++;
	}
	out->bits = bits_of(text);
	return count > 0;
}

/* The shapes in an operation's types, in the order of the text. Returns their number. */
static uint32_t read_shapes(struct slice text, struct shape shapes[SHAPES_MAX])
{
	uint32_t count = 0;

	while (text.length && count < SHAPES_MAX) {
		slice_take_until(&text, '<');
		if (text.length && *text.at >= '0' && *text.at <= '9' &&
		    read_shape(text, &shapes[count]))
			count++;
	}
	return count;
}

/* ------------------------------------------------------------------ operations */

/* Multiplications of one SM or CU per cycle, dense, with 16 bits. */
static double dot_rate(struct slice target)
{
	static const struct {
		const char *name;
		double rate;
	} rates[] = {
		{"cuda:80", 1024},   {"cuda:86", 512},    {"cuda:87", 512}, {"cuda:89", 512},
		{"cuda:90", 2048},   {"cuda:10", 4096},   {"cuda:12", 512}, {"hip:gfx90a", 512},
		{"hip:gfx94", 1024}, {"hip:gfx95", 2048},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(rates); i++)
		if (slice_starts(target, rates[i].name))
			return rates[i].rate;
	return 1024;
}

static bool is_special(struct slice op)
{
	return slice_is_any(
		op, "math.exp math.exp2 math.log math.log2 math.sqrt math.rsqrt math.sin math.cos "
		    "math.erf math.tanh math.powf arith.divf arith.divsi arith.divui arith.remsi "
		    "arith.remui tt.precise_sqrt tt.precise_divf tt.extern_elementwise");
}

/* Operations that make no instructions for each element. */
static bool is_free(struct slice op)
{
	return slice_is_any(
		op, "tt.splat tt.expand_dims tt.broadcast tt.reshape tt.make_range tt.trans "
		    "tt.return arith.constant scf.yield ttg.memdesc_index ttg.memdesc_trans "
		    "ttg.memdesc_subview ttg.local_dealloc ttg.warp_yield");
}

static void add_dot(const struct reading *reading, struct cost_region *region,
		    const struct shape *shapes, uint32_t count)
{
	/* a: rows x depth, b: depth x columns. */
	double products = count > 1 ? shapes[0].elements * shapes[1].columns : 0;
	double rate = reading->multiplications * DOT_EFFICIENCY;

	if (count > 1 && shapes[0].bits > 16)
		rate /= 2;
	else if (count > 1 && shapes[0].bits < 16)
		rate *= 2;
	region->compute += products / rate;
	region->has_dot = true;
}

static double first_bytes(const struct shape *shapes, uint32_t count)
{
	return count ? shapes[0].elements * shapes[0].bits / 8 : 4;
}

static void add_arithmetic(struct cost_region *region, const struct mlir_line *line,
			   const struct shape *shapes, uint32_t count)
{
	/* The result's type is the last one; operands of reductions are larger. */
	double elements = 1;

	for (uint32_t i = 0; i < count; i++)
		if (shapes[i].elements > elements)
			elements = shapes[i].elements;
	elements /= is_special(line->op) ? SPECIAL_RESULTS : SIMPLE_RESULTS;
	if (count) {
		region->compute += elements;
		region->arithmetic += elements;
	} else {
		region->latency += SCALAR_LATENCY;
	}
}

static void add_operation(const struct reading *reading, struct cost_region *region,
			  const struct mlir_line *line)
{
	uint32_t kind = operations_kind(line->op);
	struct shape shapes[SHAPES_MAX];
	uint32_t count = read_shapes(line->rest, shapes);
	double bytes = first_bytes(shapes, count);

	if (kind & INSTRUMENT_AUTO_DOTS) {
		add_dot(reading, region, shapes, count);
	} else if (kind & INSTRUMENT_AUTO_WAITS) {
		region->latency += BARRIER_LATENCY;
	} else if (kind & (INSTRUMENT_AUTO_LOADS | INSTRUMENT_AUTO_STORES)) {
		region->memory += bytes / GLOBAL_BYTES;
		/* Loads that do not depend on each other wait together. */
		if (slice_ends(line->op, "load") && region->latency < LOAD_LATENCY)
			region->latency += LOAD_LATENCY;
		region->has_load |= slice_is(line->op, "tt.load");
	} else if (kind & (INSTRUMENT_AUTO_LOCAL | INSTRUMENT_AUTO_TMEM)) {
		if (count && !slice_starts(line->rest, ":"))
			region->compute += bytes / SHARED_BYTES;
	} else if (kind & INSTRUMENT_AUTO_CONVERT) {
		region->compute += 2 * bytes / SHARED_BYTES;
		region->latency += BARRIER_LATENCY;
	} else if (kind & (INSTRUMENT_AUTO_REDUCE | INSTRUMENT_AUTO_SCAN)) {
		add_arithmetic(region, line, shapes, count);
		region->latency += BARRIER_LATENCY;
	} else if (kind & INSTRUMENT_AUTO_CALL) {
		region->latency += CALL_LATENCY;
	} else if (!is_free(line->op)) {
		add_arithmetic(region, line, shapes, count);
	}
}

/* ------------------------------------------------------------------ loops */

/* The value of a constant that is defined before a line. */
static bool find_constant(const struct reading *reading, uint32_t before, struct slice name,
			  uint32_t *out)
{
	while (before-- > 0) {
		const struct mlir_region_line *text = &reading->lines->at[before];

		if (!text->is_code || !slices_equal(text->line.result, name))
			continue;
		struct slice value = slice_trim(text->line.rest);
		return slice_is(text->line.op, "arith.constant") &&
		       slice_take_number(&value, UINT32_MAX, out);
	}
	return false;
}

/* Takes "WORD %name" from the beginning; the name is empty otherwise. */
static struct slice take_bound(struct slice *rest, const char *word)
{
	struct slice name = {rest->at, 0};

	*rest = slice_trim(*rest);
	if (!slice_take(rest, word))
		return name;
	*rest = slice_trim(*rest);
	name.at = rest->at;
	while (name.length < rest->length && name.at[name.length] != ' ')
		name.length++;
	slice_skip(rest, name.length);
	return name;
}

/* "%i = %first to %end step %step ..."; false if they are not constants. */
static bool read_trips(const struct reading *reading, uint32_t at, uint32_t *out)
{
	struct slice rest = reading->lines->at[at].line.rest;
	uint32_t first, end, step;
	struct slice names[3];

	slice_take(&rest, " unsigned");
	slice_take_until(&rest, '=');
	names[0] = take_bound(&rest, "");
	names[1] = take_bound(&rest, "to");
	names[2] = take_bound(&rest, "step");
	if (!names[2].length || !find_constant(reading, at, names[0], &first) ||
	    !find_constant(reading, at, names[1], &end) ||
	    !find_constant(reading, at, names[2], &step) || !step)
		return false;
	*out = end > first ? (end - first + step - 1) / step : 0;
	if (*out > TRIPS_MAX)
		*out = TRIPS_MAX;
	return true;
}

static bool open_region(struct reading *reading, uint32_t line, bool is_loop)
{
	struct kernel_cost *cost = reading->cost;
	struct cost_region region = {.parent = COST_NO_REGION, .trips = 1, .is_constant = true};

	if (is_loop && reading->depth) {
		region.parent = reading->open[reading->depth - 1];
		region.is_constant = read_trips(reading, line, &region.trips);
	}
	reading->open[reading->depth++] = cost->count;
	return ARRAY_ADD(cost->regions, cost->count, region);
}

static void add_loop(double *outer, uint32_t trips, double inner)
{
	*outer = cost_limited(*outer + trips * inner);
}

/* Adds the loops to what they are in, which comes before them. */
static void sum_regions(struct kernel_cost *cost)
{
	for (uint32_t i = cost->count; i-- > 0;) {
		struct cost_region *inner = &cost->regions[i];

		if (inner->parent == COST_NO_REGION) {
			cost->regions[i].latency += LAUNCH_LATENCY;
			continue;
		}
		if (!inner->is_constant)
			inner->trips = inner->has_dot ? TRIPS_OF_DOTS : TRIPS_ASSUMED;
		struct cost_region *outer = &cost->regions[inner->parent];
		add_loop(&outer->memory, inner->trips, inner->memory);
		add_loop(&outer->compute, inner->trips, inner->compute);
		add_loop(&outer->arithmetic, inner->trips, inner->arithmetic);
		add_loop(&outer->latency, inner->trips, inner->latency);
		outer->has_dot |= inner->has_dot;
	}
}

/* ------------------------------------------------------------------ walking */

static void read_module(struct reading *reading, struct slice line)
{
	uint32_t warps = mlir_number_after(line, "\"ttg.num-warps\" = ");

	if (!reading->cost->warp_count && warps)
		reading->cost->warp_count = warps;
	if (slice_take_past(&line, "ttg.target = \"")) {
		reading->multiplications = dot_rate(line);
		reading->cost->is_amd = slice_starts(line, "hip:");
	}
}

static bool read_lines(struct reading *reading)
{
	uint32_t ends[MLIR_DEPTH_MAX];
	struct kernel_cost *cost = reading->cost;

	for (uint32_t i = 0; i < reading->lines->count; i++) {
		const struct mlir_region_line *text = &reading->lines->at[i];
		bool is_loop = text->is_code && mlir_is_loop(&text->line);

		while (reading->depth && ends[reading->depth - 1] <= i)
			reading->depth--;
		cost->region_of_line[i] = reading->depth ? reading->open[reading->depth - 1] : 0;
		if (!text->is_code)
			continue;
		if (text->end != MLIR_NO_LINE && !reading->depth)
			read_module(reading, text->trimmed);
		if (text->end != MLIR_NO_LINE && (is_loop || slice_is(text->line.op, "tt.func"))) {
			if (!open_region(reading, i, is_loop))
				return false;
			ends[reading->depth - 1] = text->end;
		} else if (text->line.op.length && reading->depth) {
			add_operation(reading, &cost->regions[reading->open[reading->depth - 1]],
				      &text->line);
		}
	}
	return true;
}

int kernel_cost_read(const struct mlir_regions *lines, struct kernel_cost *out,
		     struct proton_error *err)
{
	struct reading reading = {.lines = lines, .cost = out, .multiplications = 1024};

	*out = (struct kernel_cost){0};
	out->region_of_line = calloc(lines->count + 1, sizeof(*out->region_of_line));
	if (!out->region_of_line || !read_lines(&reading)) {
		kernel_cost_fini(out);
		return err_nomem(err);
	}
	if (!out->warp_count)
		out->warp_count = 4;
	sum_regions(out);
	return PROTON_OK;
}

void kernel_cost_fini(struct kernel_cost *cost)
{
	free(cost->regions);
	free(cost->region_of_line);
	*cost = (struct kernel_cost){0};
}

double kernel_cost_ctas(const struct kernel_cost *cost, uint32_t region)
{
	if (cost->regions[region].has_dot || cost->warp_count >= WARPS_WITHOUT_DOTS)
		return 1;
	return (double)WARPS_WITHOUT_DOTS / cost->warp_count;
}

double kernel_cost_memory(const struct kernel_cost *cost, uint32_t region)
{
	double cycles = cost->regions[region].memory;

	return cost->regions[0].has_dot ? cycles * (GLOBAL_BYTES / CACHED_BYTES) : cycles;
}

double kernel_cost_cycles(const struct kernel_cost *cost, uint32_t region)
{
	const struct cost_region *found = &cost->regions[region];
	double memory = kernel_cost_memory(cost, region);
	double busy = memory > found->compute ? memory : found->compute;
	double cycles = busy * kernel_cost_ctas(cost, region);

	return cycles > found->latency ? cycles : found->latency;
}

double kernel_cost_registers(const struct kernel_cost *cost, const struct mlir_line *line)
{
	struct shape shapes[SHAPES_MAX];
	uint32_t kind = operations_kind(line->op);
	uint32_t count = read_shapes(line->rest, shapes);
	double bytes = first_bytes(shapes, count);

	/* Asynchronous copies do not pass through registers, nor the operands of large dots. */
	if (!count || kind & INSTRUMENT_AUTO_WAITS || slice_find(line->op, "async_"))
		return 0;
	if (kind & INSTRUMENT_AUTO_DOTS)
		bytes = slice_is(line->op, "tt.dot") ? bytes + first_bytes(shapes + 1, count - 1)
						     : 0;
	return bytes / 4 / (32.0 * cost->warp_count);
}

double kernel_cost_of_bytes(double bytes)
{
	return bytes / GLOBAL_BYTES;
}
