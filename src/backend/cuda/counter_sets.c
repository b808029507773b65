/*
 * Sets of counters for kernels.
 *
 * The chips of CUPTI 13.0's host library were asked (tests/python/test_counter_sets.py). Names of
 * tensor operations differ ("sm__ops_path_tensor_src_fp8" on GH100, "..._src_fp8_dst_fp32" on
 * GB202), and some take two passes alone on one chip and one on another. A name that takes two is
 * divided into its parts, which are base metrics with longer names:
 *
 *   src_fp16                              two passes on GH100
 *     op_hgmma_src_fp16                   one
 *     op_hmma_src_fp16                    two
 *       op_hmma_src_fp16_dst_fp16         one
 *       op_hmma_src_fp16_dst_fp32         one
 *   src_int8                              two
 *     op_igmma_src_int8                   one
 *     op_imma_src_int8                    two
 *       op_imma_src_int8_sparsity_off     one
 *       op_imma_src_int8_sparsity_on      one
 *
 * The first set has bytes and warps, and as many tensor operations as fit, the commonest first; the
 * others have the rest. Cycles of the tensor cores, in the second set (they do not fit beside bf16
 * on GH100), tell whether a kernel has more of them, except where instructions run in another unit
 * (op_utc..., Blackwell). The last set counts the instructions of the vector units, by code that
 * CUPTI adds to kernels, and needs its own pass.
 */
#include "backend/cuda/counter_sets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cupti_api.h"
#include "base/array.h"

#define TENSOR "sm__ops_path_tensor_"
#define PIPE "sm__pipe_tensor_cycles_active"
#define VECTOR "sm__sass_thread_inst_executed_op_"
#define NAME_MAX 128u
#define PARTS_MAX 48u

/* Base metrics of a chip. */
struct base {
	char **names;
	size_t count;
};

/* Names of tensor operations that each fit into a pass, with no operation in two of them. */
struct parts {
	const char *names[PARTS_MAX];
	size_t count;
	size_t left_out;
};

static bool has_name(const struct base *base, const char *name)
{
	for (size_t i = 0; i < base->count; i++)
		if (strcmp(base->names[i], name) == 0)
			return true;
	return false;
}

static bool begins_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* `name` is a part of `whole`: by instruction, by result, or with and without sparsity. */
static bool is_part(const char *name, const char *whole, unsigned kind)
{
	const char *rest = whole + strlen(TENSOR);
	const char *source = strstr(name, "_src_");
	size_t length = strlen(whole);

	if (kind == 0)
		return begins_with(name, TENSOR "op_") && !begins_with(rest, "op_") && source &&
		       strcmp(source + 1, rest) == 0;
	return strncmp(name, whole, length) == 0 &&
	       begins_with(name + length, kind == 1 ? "_dst_" : "_sparsity_") &&
	       (kind == 2 || !strstr(name + length, "_sparsity_")) &&
	       !strstr(name + length, "_realtime");
}

static bool fits_alone(struct profiler_host *host, const char *name)
{
	char text[NAME_MAX];
	const char *names[] = {text};

	snprintf(text, sizeof(text), "%s.sum", name);
	return profiler_host_configure(host, names, 1);
}

/* Adds `name`, or its parts: names that have parts of each other are at most three deep. */
static void add_parts(struct profiler_host *host, const struct base *base, const char *name,
		      unsigned depth, struct parts *parts)
{
	bool has_any = false;

	if (parts->count < PARTS_MAX && fits_alone(host, name)) {
		parts->names[parts->count++] = name;
		return;
	}
	for (unsigned kind = 0; kind < 3 && !has_any && depth < 3; kind++)
		for (size_t i = 0; i < base->count; i++) {
			if (!is_part(base->names[i], name, kind))
				continue;
			has_any = true;
			add_parts(host, base, base->names[i], depth + 1, parts);
		}
	parts->left_out += !has_any;
}

/* Operations of one type of operand, of all instructions: not a part of another name. */
static bool is_whole(const struct base *base, const char *name)
{
	if (!begins_with(name, TENSOR "src_") || strstr(name, "_sparsity_") ||
	    strstr(name, "_realtime"))
		return false;
	for (size_t i = 0; i < base->count; i++)
		if (is_part(name, base->names[i], 1) && begins_with(base->names[i], TENSOR "src_"))
			return false;
	return true;
}

/* The commonest operands come first. Others follow in any order; bits are not operations. */
static void find_tensor(struct profiler_host *host, const struct base *base, struct parts *parts)
{
	static const char *const order[] = {"bf16", "fp16", "fp8", "tf32", "int8", "fp4", "fp64"};

	for (size_t k = 0; k < ARRAY_LENGTH(order); k++)
		for (size_t i = 0; i < base->count; i++) {
			const char *name = base->names[i];

			if (is_whole(base, name) &&
			    begins_with(name + strlen(TENSOR "src_"), order[k]))
				add_parts(host, base, name, 0, parts);
		}
}

/* By the operand of a tensor operation; fp4 and fp6 mixed with others have the rate of fp8. */
static enum counter_value width_of(const char *name)
{
	const char *source = strstr(name, "src_") + strlen("src_");

	if (strstr(source, "fp6") || begins_with(source, "fp8") || begins_with(source, "int8"))
		return COUNTER_FLOPS8;
	if (begins_with(source, "fp4"))
		return COUNTER_FLOPS4;
	if (begins_with(source, "tf32"))
		return COUNTER_FLOPS32;
	return begins_with(source, "fp64") ? COUNTER_FLOPS64 : COUNTER_FLOPS16;
}

static bool configure(struct counter_set *set)
{
	return profiler_host_configure(&set->host, (const char *const *)set->names, set->count);
}

/* Adds a metric if all still fit into a pass. */
static bool add_metric(struct counter_set *set, const char *base, const char *extension,
		       enum counter_value value, double factor)
{
	char *name;

	if (set->count == COUNTER_SET_METRICS_MAX || asprintf(&name, "%s%s", base, extension) < 0)
		return false;
	set->names[set->count] = name;
	set->values[set->count] = value;
	set->factors[set->count++] = factor;
	if (configure(set))
		return true;
	free(set->names[--set->count]);
	return false;
}

/* Bytes and warps. GB202 has other names for DRAM, and GB10B has none: its memory is the CPU's. */
static void add_traffic(struct counter_set *set, const struct base *base)
{
	static const struct {
		const char *name;
		const char *extension;
		enum counter_value value;
	} metrics[] = {
		{"dram__bytes_read", ".sum", COUNTER_BYTES},
		{"dram__bytes_write", ".sum", COUNTER_BYTES},
		{"dram__bytes_op_read", ".sum", COUNTER_BYTES},
		{"dram__bytes_op_write", ".sum", COUNTER_BYTES},
		{"lts__t_bytes", ".sum", COUNTER_L2_BYTES},
		{"sm__warps_active", ".avg.pct_of_peak_sustained_active", COUNTER_WARPS},
		/* The peak, which is not counted. */
		{"lts__t_bytes", ".sum.peak_sustained", COUNTER_VALUES},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(metrics); i++)
		if (has_name(base, metrics[i].name))
			add_metric(set, metrics[i].name, metrics[i].extension, metrics[i].value, 1);
}

static bool add_pipe(struct counter_set *set, const struct base *base)
{
	for (size_t i = 0; i < base->count; i++)
		if (begins_with(base->names[i], TENSOR "op_utc"))
			return false;
	return has_name(base, PIPE) && add_metric(set, PIPE, ".sum", COUNTER_PIPE, 1);
}

/* Adds the parts that fit, and keeps the others. */
static void add_tensor(struct counter_set *set, struct parts *parts)
{
	size_t kept = 0;

	for (size_t i = 0; i < parts->count; i++)
		if (!add_metric(set, parts->names[i], ".sum", width_of(parts->names[i]), 1))
			parts->names[kept++] = parts->names[i];
	parts->count = kept;
}

/* Operations per instruction and thread; names with 2 are of two numbers (Blackwell). */
static void add_vector(struct counter_set *set, const struct base *base)
{
	static const struct {
		const char *name;
		enum counter_value value;
		double factor;
	} metrics[] = {
		{VECTOR "fadd_pred_on", COUNTER_FLOPS32, 1},
		{VECTOR "fmul_pred_on", COUNTER_FLOPS32, 1},
		{VECTOR "ffma_pred_on", COUNTER_FLOPS32, 2},
		{VECTOR "fadd2_pred_on", COUNTER_FLOPS32, 2},
		{VECTOR "fmul2_pred_on", COUNTER_FLOPS32, 2},
		{VECTOR "ffma2_pred_on", COUNTER_FLOPS32, 4},
		{VECTOR "dadd_pred_on", COUNTER_FLOPS64, 1},
		{VECTOR "dmul_pred_on", COUNTER_FLOPS64, 1},
		{VECTOR "dfma_pred_on", COUNTER_FLOPS64, 2},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(metrics); i++)
		if (has_name(base, metrics[i].name))
			add_metric(set, metrics[i].name, ".sum", metrics[i].value,
				   metrics[i].factor);
}

/* Copies: the host library's own list ends with its object. */
static bool read_base(struct profiler_host *host, struct base *base)
{
	const char *const *names;
	size_t count = profiler_host_names(host, &names);

	base->names = calloc(count + 1, sizeof(*base->names));
	for (size_t i = 0; i < count && base->names; i++)
		if (begins_with(names[i], "sm__") || begins_with(names[i], "dram__bytes") ||
		    begins_with(names[i], "lts__t_bytes")) {
			base->names[base->count] = strdup(names[i]);
			base->count += base->names[base->count] != NULL;
		}
	return base->count;
}

/* Makes the next set with `add`, unless it stays empty. */
static struct counter_set *begin_set(struct counter_sets *sets, const struct profiler_host *host)
{
	struct counter_set *set = &sets->set[sets->count];

	*set = (struct counter_set){.host = {.type = host->type,
					     .chip = host->chip,
					     .availability = sets->availability}};
	return set;
}

static void end_set(struct counter_sets *sets)
{
	struct counter_set *set = &sets->set[sets->count];

	/* The last attempt may have been one too many. */
	if (set->count && configure(set))
		sets->count++;
	else
		profiler_host_fini(&set->host);
}

bool counter_sets_choose(struct counter_sets *sets, const struct profiler_host *host)
{
	struct profiler_host trial = {
		.type = host->type, .chip = host->chip, .availability = host->availability};
	struct base base = {0};
	struct parts parts = {0};

	sets->availability = host->availability;
	sets->count = 0;
	if (read_base(&trial, &base))
		find_tensor(&trial, &base, &parts);
	sets->left_out = parts.left_out;
	add_traffic(begin_set(sets, host), &base);
	add_tensor(&sets->set[0], &parts);
	end_set(sets);
	while (sets->count && parts.count && sets->count < COUNTER_SETS_MAX - 1) {
		struct counter_set *set = begin_set(sets, host);
		size_t before = parts.count;

		if (sets->count == 1)
			sets->has_pipe = add_pipe(set, &base);
		add_tensor(set, &parts);
		end_set(sets);
		if (parts.count == before)
			break;
	}
	sets->left_out += parts.count;
	if (sets->count) {
		add_vector(begin_set(sets, host), &base);
		end_set(sets);
	}
	profiler_host_fini(&trial);
	for (size_t i = 0; i < base.count; i++)
		free(base.names[i]);
	free(base.names);
	return sets->count;
}

int counter_sets_read(struct counter_sets *sets, size_t number, const uint8_t *image,
		      size_t image_bytes, size_t index, double sums[COUNTER_VALUES])
{
	struct counter_set *set = &sets->set[number];
	double values[COUNTER_SET_METRICS_MAX];
	int result = profiler_host_evaluate(&set->host, image, image_bytes, index,
					    (const char *const *)set->names, set->count, values);

	for (size_t i = 0; i < set->count && result == CUPTI_OK; i++) {
		double value = isfinite(values[i]) ? values[i] * set->factors[i] : 0;

		if (set->values[i] == COUNTER_VALUES)
			sets->l2_bytes_per_clock = value;
		else
			sums[set->values[i]] += value;
		if (begins_with(set->names[i], TENSOR))
			sums[COUNTER_TENSOR] += value;
	}
	return result;
}

void counter_sets_fini(struct counter_sets *sets)
{
	for (size_t i = 0; i < sets->count; i++) {
		profiler_host_fini(&sets->set[i].host);
		for (size_t k = 0; k < sets->set[i].count; k++)
			free(sets->set[i].names[k]);
	}
	free(sets->availability);
	*sets = (struct counter_sets){0};
}
