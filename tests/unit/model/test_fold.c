/* model/fold and frame_owner: hidden nodes go, their numbers stay. */
#include "unit/merged_ranks.h"
#include "unit/viewer_build.h"

#include "model/fold.h"
#include "model/rollup.h"

static struct proton_error err;

static enum frame_owner owner_of(const char *file)
{
	struct profile *profile = profile_new();
	uint32_t node = build_source(profile, 0, file, 1, "f");
	enum frame_owner owner = frame_owner(profile, profile->nodes[node].frame);

	profile_free(profile);
	return owner;
}

TEST(owner_of_a_frame_is_known_by_its_path)
{
	CHECK_EQ(owner_of("/v/lib/python3.11/site-packages/triton/runtime/jit.py"), OWNER_TRITON);
	CHECK_EQ(owner_of("/v/lib/python3.11/site-packages/triton_proton/scope.py"), OWNER_TRITON);
	CHECK_EQ(owner_of("/home/user/triton/python/triton/runtime/jit.py"), OWNER_TRITON);
	CHECK_EQ(owner_of("/v/lib64/python3.12/site-packages/torch/nn/functional.py"), OWNER_TORCH);
	CHECK_EQ(owner_of("/home/user/pytorch/torch/_ops.py"), OWNER_TORCH);
	CHECK_EQ(owner_of("/tmp/torchinductor_me/ab/cab.py"), OWNER_TORCH);
	CHECK_EQ(owner_of("<eval_with_key>.3"), OWNER_TORCH);
	CHECK_EQ(owner_of("/usr/lib/python3.12/threading.py"), OWNER_PYTHON);
	CHECK_EQ(owner_of("/opt/lib64/python3.14t/asyncio/runners.py"), OWNER_PYTHON);
	CHECK_EQ(owner_of("<frozen importlib._bootstrap>"), OWNER_PYTHON);
	CHECK_EQ(owner_of("/usr/lib/python3/dist-packages/numpy/core.py"), OWNER_PACKAGE);
	CHECK_EQ(owner_of("/v/lib/python3.11/site-packages/triton_kernels/matmul.py"),
		 OWNER_PACKAGE);
	CHECK_EQ(owner_of("/home/user/train.py"), OWNER_USER);
	CHECK_EQ(owner_of("/home/user/torch/train.py"), OWNER_USER);
	CHECK_EQ(owner_of("/home/user/python3.11/train.py"), OWNER_USER);
	CHECK_EQ(owner_of("<string>"), OWNER_USER);
}

TEST(only_source_frames_have_an_owner)
{
	struct profile *profile = profile_new();
	uint32_t node = build_node(profile, 0, "/v/site-packages/torch/nn.py");

	CHECK_EQ(frame_owner(profile, profile->nodes[node].frame), OWNER_USER);
	profile_free(profile);
}

static double total(const struct profile *profile, const char *metric)
{
	struct column column;

	CHECK_OK(rollup_metric(profile, metric, true, &column, &err), err);
	double sum = column.value[0];
	column_fini(&column);
	return sum;
}

static bool *hide(struct profile *profile, const uint32_t *nodes, size_t count)
{
	bool *is_hidden = calloc(profile->node_count, sizeof(*is_hidden));

	for (size_t i = 0; i < count; i++)
		is_hidden[nodes[i]] = true;
	return is_hidden;
}

static void fold(struct profile *profile, const uint32_t *nodes, size_t count, size_t expected)
{
	bool *is_hidden = hide(profile, nodes, count);

	CHECK_EQ(fold_allowed(profile, is_hidden), expected);
	profile_fold(profile, is_hidden);
	CHECK(!profile->out_of_memory);
	free(is_hidden);
}

TEST(kernels_of_hidden_frames_move_up_and_are_summed)
{
	struct profile *profile = profile_new();
	uint32_t line = build_source(profile, 0, "a.py", 1, "main");
	uint32_t left = build_source(profile, line, "jit.py", 2, "run");
	uint32_t right = build_source(profile, line, "jit.py", 3, "run");
	uint32_t other = build_node(profile, line, "gemm");

	build_kernel(profile, build_node(profile, left, "gemm"), "CUDA", 0, 2, 20);
	build_kernel(profile, build_node(profile, right, "gemm"), "CUDA", 1, 1, 5);
	build_kernel(profile, build_node(profile, right, "add"), "CUDA", 0, 1, 7);
	build_kernel(profile, other, "CUDA", 0, 4, 100);
	fold(profile, (uint32_t[]){left, right}, 2, 2);
	CHECK_EQ(profile->node_count, 4);
	CHECK_EQ((int64_t)total(profile, "time (ns)"), 132);
	CHECK_EQ((int64_t)total(profile, "count"), 8);
	/* gemm took the place of the node that was there first in the file: that of `other`. */
	CHECK_EQ(profile->nodes[2].parent, line);
	CHECK_STR(profile_text(profile, profile->frames[profile->nodes[2].frame].name), "gemm");
	for (uint32_t k = profile->nodes[2].first_kernel; k; k = profile->kernels[k].next) {
		CHECK_U64(profile->kernels[k].count, profile->kernels[k].device ? 1 : 6);
		CHECK_U64(profile->kernels[k].total_ns, profile->kernels[k].device ? 5 : 120);
	}
	profile_free(profile);
}

TEST(root_kernels_and_what_is_below_them_are_never_hidden)
{
	struct profile *profile = profile_new();
	uint32_t scope = build_node(profile, 0, "scope");
	uint32_t kernel = build_node(profile, scope, "gemm");
	uint32_t line = build_source(profile, kernel, "k.py", 3, "gemm");
	uint32_t inner = build_source(profile, line, "lib.py", 9, "dot");

	build_kernel(profile, kernel, "CUDA", 0, 1, 10);
	fold(profile, (uint32_t[]){0, scope, kernel, line, inner}, 5, 1);
	CHECK_EQ(profile->node_count, 4);
	CHECK_EQ(profile->nodes[1].parent, 0);
	CHECK_EQ(profile->nodes[3].parent, 2);
	profile_free(profile);
}

TEST(sampled_lines_stay_where_a_kernel_has_no_time)
{
	struct profile *profile = profile_new();
	uint32_t caller = build_source(profile, 0, "jit.py", 2, "run");
	uint32_t kernel = build_node(profile, caller, "gemm");
	uint32_t line = build_source(profile, kernel, "k.py", 3, "gemm");
	uint32_t inner = build_source(profile, line, "lib.py", 9, "dot");

	/* The innermost line would be shown: those that lead to it are, too. */
	build_number(profile, inner, "num_samples", 0, 5);
	fold(profile, (uint32_t[]){caller, line}, 2, 1);
	CHECK_EQ(profile->node_count, 4);
	profile_free(profile);
}

TEST(values_move_up_unless_the_frame_above_has_its_own)
{
	struct profile *profile = profile_new();
	uint32_t timed = build_node(profile, 0, "timed");
	uint32_t plain = build_node(profile, 0, "plain");
	uint32_t hidden[4];

	for (int i = 0; i < 4; i++) {
		hidden[i] = build_node(profile, i < 2 ? timed : plain, i % 2 ? "a" : "b");
		build_number(profile, hidden[i], "own", METRIC_EXCLUSIVE, 2);
		build_number(profile, hidden[i], "tokens", 0, 10);
	}
	build_number(profile, timed, "own", METRIC_EXCLUSIVE, 7);
	fold(profile, hidden, 4, 4);
	CHECK_EQ(profile->node_count, 3);
	CHECK_EQ((int64_t)total(profile, "tokens"), 40);
	for (uint32_t node = 1; node < 3; node++) {
		for (uint32_t v = profile->nodes[node].first_value; v;
		     v = profile->values[v].next) {
			const char *name = profile_text(
				profile, profile->metrics[profile->values[v].metric].name);

			CHECK_EQ((int64_t)profile->values[v].as.float64, strcmp(name, "tokens") == 0
										 ? 20
									 : node == timed ? 7
											 : 4);
		}
	}
	profile_free(profile);
}

TEST(rows_at_the_root_are_those_of_frames_directly_below_it)
{
	struct profile *profile = profile_new();
	uint32_t scope = build_node(profile, 0, "scope");

	build_number(profile, scope, "tokens", 0, 3);
	fold(profile, &scope, 1, 1);
	CHECK_EQ(profile->node_count, 1);
	CHECK_EQ((int64_t)total(profile, "tokens"), 3);
	CHECK_EQ(profile->nodes[0].first_child, 0);
	profile_free(profile);
}

/* A rank: main > run > gemm, and with `has_two` the same kernel by another way. */
static struct profile *make_rank(uint64_t time_ns, bool has_two)
{
	struct profile *profile = profile_new();
	uint32_t line = build_source(profile, 0, "a.py", 1, "main");
	uint32_t run = build_source(profile, line, "jit.py", 2, "run");

	build_kernel(profile, build_node(profile, run, "gemm"), "CUDA", 0, 1, time_ns);
	if (has_two) {
		run = build_source(profile, line, "jit.py", 3, "run");
		build_kernel(profile, build_node(profile, run, "gemm"), "CUDA", 0, 1, 1);
	}
	build_number(profile, line, "tokens", 0, 4);
	return profile;
}

static struct profile *make_job(bool has_two)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);

	for (uint32_t rank = 0; rank < 3; rank++)
		ranks_merge(merge, target, make_rank((rank + 1) * 1000, has_two), rank);
	ranks_settle(target, NULL, NULL);
	merge_free(merge);
	return ranks_reload(target);
}

static bool *hide_jit(const struct profile *profile)
{
	bool *is_hidden = calloc(profile->node_count, sizeof(*is_hidden));

	for (uint32_t i = 1; i < profile->node_count; i++) {
		const struct row_frame *frame = &profile->frames[profile->nodes[i].frame];

		is_hidden[i] = strcmp(profile_text(profile, frame->file), "jit.py") == 0;
	}
	return is_hidden;
}

TEST(statistics_over_ranks_follow_their_node)
{
	struct profile *profile = make_job(false);
	bool *is_hidden = hide_jit(profile);

	CHECK_EQ(fold_allowed(profile, is_hidden), 1);
	profile_fold(profile, is_hidden);
	CHECK_EQ(profile->node_count, 3);
	for (uint32_t node = 0; node < 3; node++) {
		CHECK(ranks_spread(profile, node) != NULL);
		CHECK_EQ(ranks_spread(profile, node)->node, node);
		CHECK_U64(ranks_spread(profile, node)->max_ns, 3000);
	}
	uint32_t tokens = profile->values[profile->nodes[1].first_value].metric;
	CHECK(value_spreads_find(&profile->ranks->values, 1, tokens) != NULL);
	CHECK_EQ(value_spreads_find(&profile->ranks->values, 1, tokens)->ranks, 3);
	CHECK_EQ(profile->ranks->spread_count, 4);
	free(is_hidden);
	profile_free(profile);
}

TEST(statistics_of_a_node_that_was_two_are_gone)
{
	struct profile *profile = make_job(true);
	bool *is_hidden = hide_jit(profile);

	CHECK_EQ(fold_allowed(profile, is_hidden), 2);
	profile_fold(profile, is_hidden);
	CHECK_EQ(profile->node_count, 3);
	CHECK(ranks_spread(profile, 1) != NULL);
	CHECK(ranks_spread(profile, 2) == NULL);
	CHECK_EQ((int64_t)total(profile, "time (ns)"), 6003);
	free(is_hidden);
	profile_free(profile);
}
