/* The LLVM IR instrumentation pass: options, ring buffer sizes and layout. */
#include "intra/llvm/llvm_pass.h"

#include <stdio.h>

#include "intra/llvm/emit.h"

#define SHARED_LIMIT_BYTES (48u << 10) /* available to every CTA on every device */
#define SHARED_ALIGN 16u               /* of @global_smem */
/* Shared memory that the hardware reserves per CTA (CUDA, from sm_80 on). */
#define SHARED_RESERVED_BYTES 1024u
#define RING_DEFAULT_MAX_BYTES 4096u /* a larger one makes the copy at the end of each CTA slower */
#define REGISTERS_PER_PROCESSOR 65536u
#define REGISTERS_LIKELY 64u
#define RING_DEFAULT_MIN_BYTES 512u /* if there is less space, global memory is better */
#define RING_MIN_BYTES 64u
#define RING_UNIT_BYTES 16u /* also the unit of the slack area: what a lane copies at once */
#define THREADS_PER_PROCESSOR 2048u
#define CTAS_PER_PROCESSOR 32u
/* maximum depth of callees; beyond it, and for recursion, the number of records is unknown */
#define CALL_DEPTH_MAX 8u
/* records that take no more memory, which is copied after each launch, than most kernels' sums */
#define RECORDS_KEPT_BYTES 128u
#define RING_MAX_BYTES (1u << 24) /* 32 of them with slack areas are far below 2^32 */

static uint32_t round_up(uint32_t value, uint32_t to)
{
	return (value + to - 1) / to * to;
}

static uint32_t power_of_two_below(uint32_t value)
{
	return value ? 1u << (31 - __builtin_clz(value)) : 0;
}

/* ------------------------------------------------------------------ recording warps */

static int choose_units(const struct instrument_options *options, struct instrument_layout *layout,
			uint32_t *mask_out, struct proton_error *err)
{
	uint32_t step = options->mode.warps_per_unit ? options->mode.warps_per_unit : 1;

	if (options->warp_count == 0 || options->warp_count > INSTRUMENT_UNIT_MAX)
		return err_set(err, PROTON_E_INVALID, "a CTA cannot have %u warps",
			       options->warp_count);
	if (options->threads_per_warp != 32 && options->threads_per_warp != 64)
		return err_set(err, PROTON_E_INVALID, "a warp cannot have %u threads",
			       options->threads_per_warp);
	if (options->mode.warps >> options->warp_count)
		return err_set(err, PROTON_E_INVALID,
			       "sampling_options selects warp %d, but the kernel has only %u warps",
			       63 - __builtin_clzll(options->mode.warps), options->warp_count);
	if (step > options->warp_count)
		step = options->warp_count;
	layout->warp_count = options->warp_count;
	layout->warps_per_unit = step;
	layout->cta_stride = options->mode.cta_stride ? options->mode.cta_stride : 1;
	*mask_out = 0;
	for (uint32_t warp = 0; warp < options->warp_count; warp += step) {
		uint64_t members = (step >= 64 ? UINT64_MAX : (1ull << step) - 1) << warp;

		if (options->mode.warps && !(options->mode.warps & members))
			continue;
		layout->units[layout->unit_count++] = (uint8_t)warp;
		*mask_out |= 1u << warp;
	}
	return PROTON_OK;
}

/* ------------------------------------------------------------------ sizes */

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Bytes of shared memory for a CTA. */
static uint32_t limit_of(const struct instrument_options *options)
{
	return options->shared_limit ? options->shared_limit : SHARED_LIMIT_BYTES;
}

static uint32_t bytes_per_processor(const struct instrument_options *options)
{
	return options->shared_per_processor ? options->shared_per_processor : limit_of(options);
}

/* Number of CTAs of the kernel that run on one SM at once. */
static uint32_t occupancy(const struct instrument_options *options)
{
	uint32_t threads = options->warp_count * options->threads_per_warp;
	uint32_t count = bytes_per_processor(options) /
			 (options->shared_bytes + SHARED_RESERVED_BYTES);

	count = smaller(count, smaller(THREADS_PER_PROCESSOR / threads, CTAS_PER_PROCESSOR));
	return count ? count : 1;
}

/* Bytes of each ring buffer if `ctas` CTAs are to run on one SM. */
static uint32_t fit_ring(const struct emit *emit, uint32_t ctas, uint32_t rings, uint32_t wanted)
{
	uint32_t besides = emit_header_bytes(emit) + emit->layout->slack_bytes;
	uint32_t space = bytes_per_processor(emit->options) / ctas;

	space = space > SHARED_RESERVED_BYTES ? space - SHARED_RESERVED_BYTES : 0;
	space = smaller(space, limit_of(emit->options));
	space = space > emit->shared_at ? (space - emit->shared_at) / rings : 0;
	return smaller(power_of_two_below(space > besides ? space - besides : 0), wanted);
}

/*
 * Bytes of each ring buffer in shared memory; 0: not enough space. `wanted` is a power of two.
 *
 * Without an explicit size the ring buffers must not reduce the number of CTAs per SM: that costs
 * more than records in global memory (flash attention on an H200: 1.31x with three CTAs instead of
 * four, 1.16x with four). The kernel's register count is not known yet; kernels that use shared
 * memory probably have more than REGISTERS_LIKELY per thread.
 */
static uint32_t shared_ring(const struct emit *emit, uint32_t rings, uint32_t wanted)
{
	const struct instrument_options *options = emit->options;
	uint32_t ctas = options->mode.buffer_bytes ? 1 : occupancy(options);
	uint32_t likely = REGISTERS_PER_PROCESSOR / REGISTERS_LIKELY /
			  (options->warp_count * options->threads_per_warp);
	uint32_t ring;

	while ((ring = fit_ring(emit, ctas, rings, wanted)) <
		       smaller(wanted, RING_DEFAULT_MIN_BYTES) &&
	       ctas > 1)
		if (ctas-- <= likely)
			return 0;
	return ring < RING_MIN_BYTES && ring < wanted ? 0 : ring;
}

/* Bytes that the last group may extend past the end of a ring buffer that does not hold all. */
static uint32_t slack_of(const struct emit *emit)
{
	return round_up((emit->plan->group_max - 1) * INSTRUMENT_RECORD_BYTES, RING_UNIT_BYTES);
}

/*
 * Bytes of a ring buffer and of its slack area, if there is space. E_INVALID, E_UNSUPPORTED.
 */
static int want_ring(const struct emit *emit, struct instrument_layout *layout,
		     uint32_t *wanted_out, struct proton_error *err)
{
	const struct instrument_options *options = emit->options;
	uint32_t wanted = RING_DEFAULT_MAX_BYTES;
	int64_t max = emit->plan->max_bytes;

	layout->slack_bytes = slack_of(emit);
	if (options->mode.buffer_bytes)
		wanted = power_of_two_below(options->mode.buffer_bytes / layout->unit_count);
	if (wanted > RING_MAX_BYTES)
		wanted = RING_MAX_BYTES;
	if (wanted < INSTRUMENT_RECORD_BYTES)
		return err_set(err, PROTON_E_INVALID,
			       "buffer_size %u is too small for %u warps; the minimum is %u",
			       options->mode.buffer_bytes, layout->unit_count,
			       layout->unit_count * INSTRUMENT_RECORD_BYTES);
	if (wanted < RING_UNIT_BYTES)
		wanted = RING_UNIT_BYTES;
	/* If it is known, a kernel needs at most what its longest path writes. */
	while (max >= 0 && wanted / 2 >= max && wanted > RING_UNIT_BYTES)
		wanted /= 2;
	if (max >= 0 && wanted >= max)
		layout->slack_bytes = 0;
	while (layout->slack_bytes > wanted && wanted < RING_MAX_BYTES)
		wanted *= 2;
	if (layout->slack_bytes > wanted)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "too many records in one basic block (%u)", emit->plan->group_max);
	*wanted_out = wanted;
	return PROTON_OK;
}

static uint32_t want_words(const struct sum_plan *sums)
{
	uint32_t bytes = power_of_two_below(sum_plan_bytes(sums));

	return bytes < sum_plan_bytes(sums) ? bytes * 2 : bytes;
}

static int size_rings(struct emit *emit, struct instrument_layout *layout, struct proton_error *err)
{
	uint32_t rings = layout->unit_count + emit_has_spare(emit);
	uint32_t wanted = 0;
	uint32_t min;

	if (emit->sums) {
		min = wanted = want_words(emit->sums);
	} else {
		TRY(want_ring(emit, layout, &wanted, err));
		min = layout->slack_bytes;
	}
	uint32_t slack = layout->slack_bytes;
	layout->ring_bytes = 0;
	if (emit->buffer == INSTRUMENT_BUFFER_SHARED)
		layout->ring_bytes = shared_ring(emit, rings, wanted);
	if (!emit->sums && layout->ring_bytes && layout->ring_bytes < wanted) {
		/* The buffer was to hold all records, and does not. */
		min = layout->slack_bytes = slack_of(emit);
		layout->ring_bytes = shared_ring(emit, rings, wanted);
	}
	if (layout->ring_bytes < min || !layout->ring_bytes) {
		layout->slack_bytes = slack;
		emit->buffer = INSTRUMENT_BUFFER_GLOBAL;
		rings = layout->unit_count + emit_has_spare(emit);
		layout->ring_bytes = wanted;
	}
	if (emit->buffer == INSTRUMENT_BUFFER_SHARED)
		rings = layout->unit_count; /* the spare ring buffer is not copied */
	layout->cta_bytes = round_up((uint32_t)layout_ring_at(layout, rings), INSTRUMENT_CTA_ALIGN);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ the pass */

/*
 * Maximum bytes recorded by each function: first callees without calls, then their callers, and so
 * on.
 */
static bool find_max(const struct ir_function *kernel, struct plan *plans)
{
	const struct callees *callees = kernel->callees;

	for (uint32_t i = 0; i < callees->count; i++)
		plans[i + 1].max_bytes = PLAN_VARIES;
	for (uint32_t depth = 0; depth < CALL_DEPTH_MAX; depth++)
		for (uint32_t i = callees->count; i-- > 0;)
			if (plans[i + 1].max_bytes == PLAN_VARIES &&
			    !plan_find_max(&callees->functions[i], &plans[i + 1], &plans[1]))
				return false;
	return plan_find_max(kernel, &plans[0], &plans[1]);
}

/* Plans of the kernel and its callees; plans[0] also gets what they have in common. */
static int make_plans(const struct ir_function *kernel, struct instrument_layout *layout,
		      struct plan *plans, struct proton_error *err)
{
	const struct callees *callees = kernel->callees;
	int status = plan_make(kernel, layout, &plans[0], err);

	for (uint32_t i = 0; callees && i < callees->count && status == PROTON_OK; i++) {
		const struct plan *plan = &plans[i + 1];

		status = plan_make(&callees->functions[i], layout, &plans[i + 1], err);
		if (status != PROTON_OK)
			break;
		plans[0].record_count += plan->record_count;
		if (plan->group_max > plans[0].group_max)
			plans[0].group_max = plan->group_max;
	}
	if (status == PROTON_OK &&
	    ((callees && !find_max(kernel, plans)) || !static_nesting(kernel, plans, layout)))
		status = err_nomem(err);
	return status;
}

/* True if no record can be overwritten, and records cost little more than sums. */
static bool can_keep_records(const struct emit *emit)
{
	int64_t max = emit->plan->max_bytes;

	return max >= 0 && max <= emit->layout->ring_bytes &&
	       emit->buffer == emit->options->mode.buffer &&
	       (max <= RECORDS_KEPT_BYTES || emit->options->mode.buffer_bytes);
}

static int choose_tree(struct emit *emit, struct plan *plan, struct sum_plan *sums,
		       struct instrument_result *result, struct proton_error *err)
{
	enum instrument_tree tree = emit->options->mode.tree;
	struct instrument_layout *layout = &result->layout;
	int status = size_rings(emit, layout, err);
	int sums_status;

	if (tree == INSTRUMENT_TREE_RECORDS ||
	    (tree == INSTRUMENT_TREE_AUTO && status == PROTON_OK && can_keep_records(emit)))
		return status;
	sums_status =
		sum_plan_make(emit->function, plan, emit->options->has_extremes, layout, sums, err);
	if (sums_status != PROTON_OK)
		return sums_status;
	if (*sums->reason) {
		if (tree == INSTRUMENT_TREE_SUMS)
			memcpy(result->records_reason, sums->reason, sizeof(sums->reason));
		return status;
	}
	emit->sums = sums;
	emit->buffer = emit->options->mode.buffer;
	plan->max_bytes = sum_plan_bytes(sums);
	layout->slack_bytes = 0;
	return size_rings(emit, layout, err);
}

static int make_text(struct emit *emit, struct instrument_result *result, struct proton_error *err)
{
	struct out out;

	emit->out = &out;
	out_init(&out, -1);
	emit_text(emit);
	emit->out = NULL;
	int status = out_finish_text(&out, &result->text, &result->length, err);
	return status == PROTON_OK ? verify_names(result->text, result->length, err) : status;
}

static int instrument(const struct ir_function *function, const struct instrument_options *options,
		      struct instrument_result *result, struct proton_error *err)
{
	uint32_t count = 1 + (function->callees ? function->callees->count : 0);
	AUTO_FREE struct plan *plans = calloc(count + 1, sizeof(*plans));
	AT_END(sum_plan_fini) struct sum_plan sums = {0};
	struct emit emit = {
		.target = function->is_amd ? &emit_amd : &emit_nvidia,
		.function = function,
		.plan = plans,
		.layout = &result->layout,
		.options = options,
		.buffer = options->mode.buffer,
		.shared_at = round_up(options->shared_bytes, SHARED_ALIGN),
	};
	int status = plans ? choose_units(options, &result->layout, &emit.warp_mask, err)
			   : err_nomem(err);

	/* LLVM reads hwreg(HW_REG_SHADER_CYCLES, 0, 20), which wraps every half millisecond. */
	if (status == PROTON_OK && strncmp(options->arch, "gfx11", 5) == 0)
		status = err_set(err, PROTON_E_UNSUPPORTED,
				 "%s is not supported: its cycle counter has only 20 bits",
				 options->arch);
	if (status == PROTON_OK)
		status = make_plans(function, &result->layout, plans, err);
	result->layout.is_amd = function->is_amd;
	if (status == PROTON_OK)
		status = choose_tree(&emit, plans, &sums, result, err);
	if (status == PROTON_OK) {
		status = make_text(&emit, result, err);
		result->buffer = emit.buffer;
		result->record_count = plans[0].record_count;
		result->holds_all = plans[0].max_bytes >= 0 &&
				    plans[0].max_bytes <= result->layout.ring_bytes;
		if (emit.buffer == INSTRUMENT_BUFFER_SHARED)
			result->shared_bytes = emit.shared_at +
					       (result->layout.unit_count + emit_has_spare(&emit)) *
						       emit_shared_bytes(&emit);
	}
	for (uint32_t i = 0; plans && i < count; i++)
		plan_fini(&plans[i]);
	return status;
}

/* Parses `moved`, if it is not NULL, in place of *text, and keeps it there. */
static int read_again(struct ir_function *function, char **text, char *moved, size_t length,
		      struct proton_error *err)
{
	if (!moved)
		return PROTON_OK;
	ir_module_fini(function);
	free(*text);
	*text = moved;
	return ir_module_read(moved, length, function, err);
}

/* Changes the order of lines. *text_out: the text that `function` refers to then, or NULL. */
static int reorder(struct ir_function *function, const struct instrument_options *options,
		   struct instrument_result *out, char **text_out, struct proton_error *err)
{
	size_t length;
	char *moved;
	int status = reschedule(function, &moved, &length, err);

	*text_out = NULL;
	if (status == PROTON_OK)
		status = read_again(function, text_out, moved, length, err);
	if (status == PROTON_OK)
		status = hoist(function, &moved, &length, err);
	if (status != PROTON_OK)
		return status;
	out->can_hoist = moved != NULL;
	if (!options->hoists) {
		free(moved);
		moved = NULL;
	}
	return read_again(function, text_out, moved, length, err);
}

int instrument_llvm(const char *text, size_t length, const struct instrument_options *options,
		    struct instrument_result *out, struct proton_error *err)
{
	struct ir_function function;
	char *moved;

	*out = (struct instrument_result){.shared_bytes = options->shared_bytes};
	TRY(ir_module_read(text, length, &function, err));
	out->ignored_markers = function.unknown_markers;
	if (function.unknown_markers)
		snprintf(out->ignored_reason, sizeof(out->ignored_reason),
			 "cannot parse the marker in line %u of the kernel's LLVM IR",
			 function.unknown_line + 1);
	int status = reorder(&function, options, out, &moved, err);
	if (status == PROTON_OK) {
		out->ignored_markers += function.outside_markers;
		if (!*out->ignored_reason)
			memcpy(out->ignored_reason, function.outside_reason,
			       sizeof(out->ignored_reason));
		if (function.marker_count || function.callees)
			status = ir_module_check(&function, options->parameter_count,
						 options->shared_bytes, err);
		if (status == PROTON_OK && (function.marker_count || function.callees))
			status = instrument(&function, options, out, err);
	}
	ir_module_fini(&function);
	free(moved);
	if (status != PROTON_OK)
		instrument_result_fini(out);
	return status;
}

void instrument_result_fini(struct instrument_result *result)
{
	layout_fini(&result->layout);
	free(result->text);
	*result = (struct instrument_result){0};
}
