/* model/merge, regroup and percentile: merging, bottom-up trees, percentiles. */
#include "unit/tap.h"

#include <math.h>

#include "base/slice.h"
#include "model/merge.h"
#include "model/regroup.h"
#include "model/rollup.h"
#include "unit/viewer_build.h"

static struct proton_error err;

/* scope ( k(2 runs), k of CUDA 1 ), k; numbers, a property and a vector. */
static struct profile *sample(uint64_t factor)
{
	struct profile *profile = profile_new();
	uint32_t scope = build_node(profile, 0, "scope");
	uint32_t inner = build_node(profile, scope, "k");
	uint32_t outer = build_node(profile, 0, "k");

	build_kernel(profile, inner, "CUDA", 0, 2, 100 * factor);
	build_kernel(profile, inner, "CUDA", 1, 4, 1000 * factor);
	build_kernel(profile, outer, "CUDA", 0, 1, 7 * factor);
	build_number(profile, inner, "flops", 0, 10.0 * (double)factor);
	build_number(profile, outer, "flops", 0, 1);
	build_number(profile, scope, "loss", METRIC_PROPERTY, (double)factor);
	profile_counter(profile, "lost: x", true, factor);
	profile_info(profile, "command", "train");
	profile_info(profile, "host", factor == 1 ? "a" : "b");
	return profile;
}

static double number(const struct profile *profile, const char *name, uint32_t node)
{
	struct column column;

	CHECK_OK(rollup_metric(profile, name, rollup_is_inclusive(profile, name), &column, &err),
		 err);
	double value = column.value[node];
	column_fini(&column);
	return value;
}

static uint32_t child(const struct profile *profile, uint32_t parent, const char *name)
{
	for (uint32_t i = profile->nodes[parent].first_child; i;
	     i = profile->nodes[i].next_sibling) {
		uint32_t frame = profile->nodes[i].frame;

		if (strcmp(profile_text(profile, profile->frames[frame].name), name) == 0)
			return i;
	}
	return 0;
}

static struct profile *merged(struct profile *a, struct profile *b)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);
	struct profile *sources[] = {a, b};

	for (size_t i = 0; i < 2; i++)
		CHECK(merge_tree(merge, sources[i]) != NULL);
	merge_free(merge);
	CHECK(!target->out_of_memory);
	return target;
}

TEST(two_trees_become_one_with_the_sums_of_both)
{
	struct profile *a = sample(1);
	struct profile *b = sample(3);
	uint32_t scope;

	build_kernel(b, build_node(b, 0, "only in b"), "CUDA", 0, 1, 5);
	struct profile *sum = merged(a, b);
	CHECK_EQ(sum->node_count, 5);
	scope = child(sum, 0, "scope");
	CHECK_NEAR(number(sum, "time (ns)", 0), 4 * 1107 + 5, 0);
	CHECK_NEAR(number(sum, "time (ns)", scope), 4 * 1100, 0);
	CHECK_NEAR(number(sum, "count", 0), 15, 0);
	CHECK_NEAR(number(sum, "flops", scope), 40, 0);
	CHECK_NEAR(number(sum, "loss", scope), 3, 0);
	CHECK_EQ(sum->device_count, 2);
	CHECK_EQ(sum->counter_count, 1);
	CHECK_EQ(sum->counters[0].value, 4);
	CHECK_EQ(sum->info_count, 1);
	CHECK_STR(profile_text(sum, sum->info[0].value), "train");
	profile_free(a);
	profile_free(b);
	profile_free(sum);
}

TEST(integers_beyond_64_bits_stay_at_the_end_of_their_range_and_count_a_loss)
{
	struct profile *parts[2], *sum;

	for (int i = 0; i < 2; i++) {
		struct profile *profile = parts[i] = profile_new();
		uint32_t metric = profile_metric(profile, profile_string(profile, "n", 1),
						 PROTON_METRIC_INT64, 0);

		profile_value(profile, 0, metric)->as.int64 = INT64_MAX - 1;
	}
	sum = merged(parts[0], parts[1]);
	CHECK_EQ(sum->values[sum->nodes[0].first_value].as.int64, INT64_MAX);
	CHECK_EQ(sum->counter_count, 1);
	CHECK_STR(profile_text(sum, sum->counters[0].name), "lost: integer metric beyond 64 bits");
	CHECK(sum->counters[0].is_loss);
	CHECK_U64(sum->counters[0].value, 1);
	for (int i = 0; i < 2; i++)
		profile_free(parts[i]);
	profile_free(sum);
}

TEST(equal_siblings_of_one_file_become_one)
{
	struct profile *a = profile_new();
	struct profile *b = profile_new();

	build_kernel(a, build_node(a, 0, "k"), "CUDA", 0, 1, 1);
	build_kernel(a, build_node(a, 0, "k"), "CUDA", 0, 1, 2);
	struct profile *sum = merged(a, b);
	CHECK_EQ(sum->node_count, 2);
	CHECK_NEAR(number(sum, "time (ns)", 1), 3, 0);
	profile_free(a);
	profile_free(b);
	profile_free(sum);
}

TEST(an_integer_here_and_a_double_there_are_one_double)
{
	struct profile *a = profile_new();
	struct profile *b = profile_new();
	struct profile *sum;
	uint32_t metric = profile_metric(a, profile_string(a, "x", 1), PROTON_METRIC_INT64, 0);

	profile_value(a, 0, metric)->as.int64 = 2;
	build_number(b, 0, "x", 0, 0.5);
	for (int swapped = 0; swapped < 2; swapped++) {
		sum = swapped ? merged(b, a) : merged(a, b);
		CHECK_EQ(sum->metric_count, 1);
		CHECK_NEAR(number(sum, "x", 0), 2.5, 0);
		profile_free(sum);
	}
	profile_free(a);
	profile_free(b);
}

TEST(devices_of_one_number_but_another_kind_stay_apart)
{
	struct profile *a = profile_new();
	struct profile *b = profile_new();

	build_kernel(a, build_node(a, 0, "k"), "CUDA", 0, 1, 1);
	build_kernel(b, build_node(b, 0, "k"), "CUDA", 0, 1, 1);
	build_device(a, "CUDA", 0, "90", 1, 1, 1, 132);
	build_device(b, "CUDA", 0, "80", 1, 1, 1, 108);
	struct profile *sum = merged(a, b);
	CHECK_EQ(sum->device_count, 2);
	CHECK_EQ(sum->node_count, 2);
	profile_free(a);
	profile_free(b);
	profile_free(sum);
}

TEST(a_kernel_may_be_a_mere_name_in_another_file)
{
	struct profile *a = profile_new();
	struct profile *b = profile_new();
	struct row_frame frame = {.kind = FRAME_KERNEL};

	frame.name = profile_string(b, "k", 1);
	build_node(a, 0, "k");
	profile_node(b, 0, profile_frame(b, frame));
	struct profile *sum = merged(a, b);
	CHECK_EQ(sum->node_count, 2);
	CHECK_EQ(sum->frames[sum->nodes[1].frame].kind, FRAME_KERNEL);
	profile_free(a);
	profile_free(b);
	profile_free(sum);
}

/* A kernel that ran once per duration. */
static void add_runs(struct profile *profile, const char *name, const uint64_t *ns, size_t count)
{
	uint32_t node = build_node(profile, 0, name);
	uint32_t histogram = count > 1 ? profile_histogram(profile) : 0;

	profile_device(profile, profile_string(profile, "CUDA", 4), 0);
	struct profile_kernel *kernel = profile_kernel(profile, node, 0);
	kernel->histogram = histogram;
	kernel->count = count;
	kernel->min_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		kernel->total_ns += ns[i];
		kernel->min_ns = ns[i] < kernel->min_ns ? ns[i] : kernel->min_ns;
		kernel->max_ns = ns[i] > kernel->max_ns ? ns[i] : kernel->max_ns;
		if (histogram)
			profile->histograms[histogram].bucket[histogram_bucket(ns[i])]++;
	}
}

static double percentile(const struct profile *profile, double share, uint32_t node)
{
	struct column column;

	CHECK_OK(rollup_percentile(profile, share, &column, &err), err);
	double value = column.value[node];
	column_fini(&column);
	return value;
}

TEST(percentiles_are_in_the_bucket_of_the_true_value)
{
	struct profile *profile = profile_new();
	uint64_t ns[1000];

	for (size_t i = 0; i < 1000; i++)
		ns[i] = 1000 + i * 10; /* 1000 to 10990 */
	add_runs(profile, "even", ns, 1000);
	ns[0] = 700;
	add_runs(profile, "once", ns, 1);
	for (double share = 0.05; share < 1; share += 0.05) {
		double truth = 1000 + 10 * 1000 * share;
		double found = percentile(profile, share, 1);

		CHECK_NEAR(found, truth, truth * 0.02);
	}
	CHECK_NEAR(percentile(profile, 0.5, 2), 700, 0);
	CHECK_NEAR(percentile(profile, 0.0001, 0), 700, 68); /* the root has both: first bucket */
	profile_free(profile);
}

TEST(percentiles_of_merged_runs_are_those_of_all_runs)
{
	struct profile *a = profile_new();
	struct profile *b = profile_new();
	struct profile *both = profile_new();
	uint64_t ns[300];

	for (size_t i = 0; i < 300; i++)
		ns[i] = (i * 7919) % 100000 + 50;
	add_runs(a, "k", ns, 1);
	add_runs(b, "k", ns + 1, 299);
	add_runs(both, "k", ns, 300);
	struct profile *sum = merged(a, b);
	for (double share = 0.1; share < 1; share += 0.2)
		CHECK_NEAR(percentile(sum, share, 1), percentile(both, share, 1), 1e-6);
	profile_free(a);
	profile_free(b);
	profile_free(both);
	profile_free(sum);
}

TEST(percentiles_are_unknown_if_those_of_one_kernel_are)
{
	struct profile *profile = profile_new();
	uint64_t ns[] = {100, 200};

	add_runs(profile, "told", ns, 2);
	add_runs(profile, "untold", ns, 2);
	profile->kernels[2].histogram = 0;
	profile->kernels[2].min_ns = profile->kernels[2].max_ns = KERNEL_TIME_UNKNOWN;
	CHECK(!isnan(percentile(profile, 0.5, 1)));
	CHECK(isnan(percentile(profile, 0.5, 2)));
	CHECK(isnan(percentile(profile, 0.5, 0)));
	profile_free(profile);
}

TEST(groups_have_the_totals_of_the_tree)
{
	struct profile *profile = sample(1);

	for (int by = REGROUP_KERNEL; by <= REGROUP_DEVICE; by++) {
		struct profile *flat = NULL;

		CHECK_OK(profile_regroup(profile, (enum regroup_by)by, 0, NULL, NULL, &flat, &err),
			 err);
		CHECK_NEAR(number(flat, "time (ns)", 0), 1107, 0);
		CHECK_NEAR(number(flat, "flops", 0), 11, 0);
		for (uint32_t i = 1; i < flat->node_count; i++)
			CHECK_EQ(flat->nodes[i].parent, 0);
		profile_free(flat);
	}
	profile_free(profile);
}

static struct profile *regrouped(const struct profile *profile, enum regroup_by by)
{
	struct profile *flat = NULL;

	CHECK_OK(profile_regroup(profile, by, 0, NULL, NULL, &flat, &err), err);
	return flat;
}

TEST(groups_contain_the_frames_of_their_key)
{
	struct profile *profile = sample(1);
	uint32_t line = build_source(profile, 0, "/x/site-packages/torch/nn/__init__.py", 3, "f");

	build_kernel(profile, build_node(profile, line, "z"), "CUDA", 1, 1, 11);
	struct profile *flat = regrouped(profile, REGROUP_KERNEL);
	CHECK_EQ(flat->node_count, 3);
	CHECK_NEAR(number(flat, "time (ns)", child(flat, 0, "k")), 1107, 0);
	profile_free(flat);
	flat = regrouped(profile, REGROUP_SCOPE);
	CHECK_NEAR(number(flat, "time (ns)", child(flat, 0, "scope")), 1100, 0);
	CHECK_NEAR(number(flat, "time (ns)", child(flat, 0, "(no scope)")), 7, 0);
	CHECK_NEAR(number(flat, "loss", child(flat, 0, "scope")), 1, 0);
	profile_free(flat);
	flat = regrouped(profile, REGROUP_FILE);
	CHECK(child(flat, 0, "/x/site-packages/torch/nn/__init__.py"));
	CHECK_NEAR(number(flat, "time (ns)", child(flat, 0, "(no source)")), 1107, 0);
	profile_free(flat);
	flat = regrouped(profile, REGROUP_MODULE);
	CHECK_NEAR(number(flat, "time (ns)", child(flat, 0, "torch.nn")), 11, 0);
	profile_free(flat);
	flat = regrouped(profile, REGROUP_DEVICE);
	CHECK_NEAR(number(flat, "time (ns)", child(flat, 0, "CUDA 1")), 1011, 0);
	CHECK_NEAR(number(flat, "flops", child(flat, 0, "CUDA 1")), 10, 0);
	profile_free(flat);
	profile_free(profile);
}

/* The time of the one group of a kernel below these frames; "|" is between them. */
static double time_of_group(const char *path, enum regroup_by by, size_t levels, const char *name)
{
	struct profile *profile = profile_new();
	struct profile *flat = NULL;
	struct slice rest = slice_of(path);
	uint32_t node = 0;
	double found;

	while (rest.length > 0) {
		struct slice part = slice_take_until(&rest, '|');
		char frame[64];

		snprintf(frame, sizeof(frame), "%.*s", (int)part.length, part.at);
		node = strchr(frame, '@') ? build_source(profile, node, "/x.py", 1, frame)
					  : build_node(profile, node, frame);
	}
	node = build_node(profile, node, "at::k");
	build_kernel(profile, node, "CUDA", 0, 1, 5);
	profile->frames[profile->nodes[node].frame].kind = FRAME_KERNEL;
	build_number(profile, build_node(profile, node, "load"), "cycles", 0, 9);
	CHECK_OK(profile_regroup(profile, by, levels, NULL, NULL, &flat, &err), err);
	CHECK_EQ(flat->node_count, 2); /* also for what is inside the kernel */
	CHECK_STR(profile_text(flat, flat->frames[flat->nodes[1].frame].name), name);
	found = number(flat, "time (ns)", 1);
	profile_free(flat);
	profile_free(profile);
	return found;
}

#define CHECK_LAYER(path, levels, name)                                                            \
	CHECK_NEAR(time_of_group(path, REGROUP_LAYER, levels, name), 5, 0)
#define CHECK_SHAPE(path, name) CHECK_NEAR(time_of_group(path, REGROUP_SHAPE, 0, name), 5, 0)
#define CHECK_OPERATOR(path, name) CHECK_NEAR(time_of_group(path, REGROUP_OPERATOR, 0, name), 5, 0)

TEST(a_layer_is_the_innermost_name_except_operators)
{
	CHECK_LAYER("Model|layers.0|layers.0.mlp", 0, "layers.0.mlp");
	CHECK_LAYER("Model|layers.0|layers.0.mlp", 3, "layers.0.mlp");
	CHECK_LAYER("Model|layers.0|layers.0.mlp", 2, "layers.0");
	CHECK_LAYER("Model|layers.0|layers.0.mlp", 1, "layers");
	CHECK_LAYER("Model|f@|layers.0|g@|MyBackward|aten::add", 0, "layers.0");
	CHECK_LAYER("layers.0|<in up, down>|<h: aten.mul>", 0, "layers.0");
	CHECK_LAYER("<captured_at>|layers.0", 0, "layers.0");
	CHECK_LAYER("layers.0|<backward>|AddmmBackward0|aten::mm", 0, "layers.0 <backward>");
	CHECK_LAYER("Model|<backward>|layers.0", 2, "layers.0 <backward>");
	CHECK_LAYER("Trainer::step|layers.0|my_lib::f|PythonSubclass|aten::add", 0, "layers.0");
	CHECK_LAYER("Trainer::step", 0, "Trainer::step");
	CHECK_LAYER("f@|aten::add", 0, "(no layer)");
	CHECK_LAYER("f@|<backward>|aten::add", 0, "(no layer) <backward>");
	CHECK_LAYER("BackwardPass|Backward", 0, "Backward");
}

TEST(an_operator_has_the_same_name_in_eager_and_compiled_code)
{
	CHECK_OPERATOR("layers.0|aten::linear|f@|aten::addmm", "aten::addmm");
	CHECK_OPERATOR("<backward>|AddmmBackward0|aten::mm", "aten::mm");
	CHECK_OPERATOR("layers.0|<backward>|ScaleBackward", "ScaleBackward");
	CHECK_OPERATOR("<h, out: aten.addmm>|CompiledFunctionBackward", "aten::addmm");
	CHECK_OPERATOR("<aten.add.Tensor>", "aten::add.Tensor");
	CHECK_OPERATOR("<a: aten.addmm, my_lib.gelu.x, ...>", "aten::addmm, my_lib::gelu.x, ...");
	CHECK_OPERATOR("layers.0|<a, b, ...>", "(no operator)");
	CHECK_OPERATOR("layers.0.mlp|<in norm.0, mlp.up>", "(no operator)");
	CHECK_OPERATOR("f@|Trainer::step", "(no operator)");
	CHECK_OPERATOR("<h: aten.t, aten.addmm (bf16[4], f32[s7x4])>", "aten::t, aten::addmm");
}

TEST(an_operator_has_a_row_for_the_shapes_of_its_inputs)
{
	CHECK_SHAPE("<h: aten.t, aten.addmm (bf16[4], f32[s7x4])>",
		    "aten::t, aten::addmm (bf16[4], f32[s7x4])");
	CHECK_SHAPE("<h, out: aten.mm (f32[8x16])>", "aten::mm (f32[8x16])");
	CHECK_SHAPE("layers.0|aten::linear|aten::addmm", "aten::addmm");
	CHECK_SHAPE("layers.0", "(no operator)");
}

TEST(bottom_up_each_kernel_has_its_callers)
{
	struct profile *profile = sample(1);
	struct profile *callers = NULL;
	uint32_t k;

	CHECK_OK(profile_regroup(profile, REGROUP_CALLERS, 10, NULL, NULL, &callers, &err), err);
	k = child(callers, 0, "k");
	CHECK_EQ(callers->node_count, 3);
	CHECK_NEAR(number(callers, "time (ns)", k), 1107, 0);
	CHECK_NEAR(number(callers, "time (ns)", child(callers, k, "scope")), 1100, 0);
	profile_free(callers);
	CHECK_OK(profile_regroup(profile, REGROUP_CALLERS, 0, NULL, NULL, &callers, &err), err);
	CHECK_EQ(callers->node_count, 2);
	profile_free(callers);
	profile_free(profile);
}

TEST(only_kept_nodes_count)
{
	struct profile *profile = sample(1);
	bool keeps[4] = {false, false, true, false};
	struct profile *flat = NULL;

	CHECK_OK(profile_regroup(profile, REGROUP_KERNEL, 0, keeps, NULL, &flat, &err), err);
	CHECK_NEAR(number(flat, "time (ns)", 0), 1100, 0);
	profile_free(flat);
	profile_free(profile);
}
