/* model/ranks and save_profile: ranks added one by one and in parts, saved and loaded. */
#include "unit/merged_ranks.h"

/* The profile of a rank: scope/KERNEL with this time, and a metric. */
static struct profile *make_rank(const char *kernel, uint64_t time_ns, uint32_t world)
{
	struct profile *profile = profile_new();
	uint32_t scope = ranks_node(profile, 0, "scope", FRAME_NAME);
	uint32_t share = profile_metric(profile, profile_string(profile, "share", 5),
					PROTON_METRIC_DOUBLE, 0);
	char text[16];

	ranks_kernel(profile, ranks_node(profile, scope, kernel, FRAME_KERNEL),
		     (struct profile_kernel){
			     .count = 2, .total_ns = time_ns, .min_ns = 1, .max_ns = time_ns - 1});
	profile_value(profile, scope, share)->as.float64 = 0.1;
	profile_info(profile, "host", "node1");
	snprintf(text, sizeof(text), "%u", world);
	profile_info(profile, "world_size", text);
	CHECK(!profile->out_of_memory);
	return profile;
}

/* Ranks `first` to `end` with times 1000, 2000 and so on. */
static struct profile *merged(uint32_t first, uint32_t end)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);

	for (uint32_t rank = first; rank < end; rank++)
		ranks_merge(merge, target, make_rank("gemm", (rank + 1) * 1000, 12), rank);
	ranks_settle(target, NULL, NULL);
	merge_free(merge);
	return target;
}

static void check_spread(const struct profile *profile, uint32_t node)
{
	const struct row_spread *spread = ranks_spread(profile, node);

	CHECK(spread);
	CHECK_EQ(spread->ranks, 10);
	CHECK_U64(spread->sum_ns, 55000);
	CHECK_U64(spread->squares, 385);
	CHECK_U64(spread->min_ns, 1000);
	CHECK_EQ(spread->min_rank, 0);
	CHECK_U64(spread->max_ns, 10000);
	CHECK_EQ(spread->max_rank, 9);
	CHECK_EQ(spread->bucket[0], 1); /* below 1024 */
	CHECK_EQ(spread->bucket[1], 1); /* below 2048 */
	CHECK_EQ(spread->bucket[2], 2);
	CHECK_EQ(spread->bucket[3], 4);
	CHECK_EQ(spread->bucket[4], 2);
	for (uint32_t i = 0; i < SPREAD_TOP; i++) {
		CHECK_EQ(spread->top_rank[i], 9 - i);
		CHECK_U64(spread->top_ns[i], (10 - i) * 1000);
	}
}

TEST(spread_of_a_node_contains_what_is_below_it)
{
	struct profile *profile = ranks_reload(merged(0, 10));

	CHECK_EQ(profile->node_count, 3);
	for (uint32_t node = 0; node < 3; node++)
		check_spread(profile, node);
	CHECK_EQ(profile->ranks->count, 10);
	CHECK_EQ(profile->ranks->rows[7].rank, 7);
	CHECK_EQ(profile->ranks->rows[7].state, RANK_FINISHED);
	CHECK_U64(profile->ranks->rows[7].time_ns, 8000);
	CHECK_U64(profile->ranks->rows[7].kernels, 2);
	CHECK_STR(profile_text(profile, profile->ranks->rows[7].host), "node1");
	CHECK_U64(profile->ranks->rows[7].shape, profile->ranks->rows[3].shape);
	profile_free(profile);
}

TEST(parts_of_a_job_add_up_to_the_whole)
{
	static const uint32_t cuts[] = {1, 3, 5, 9};

	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		struct profile *target = profile_new();
		struct merge *merge = merge_new(target);
		struct profile *parts[2] = {ranks_reload(merged(0, cuts[i])),
					    ranks_reload(merged(cuts[i], 10))};

		for (int p = 0; p < 2; p++)
			ranks_merge_part(merge, target, parts[p]);
		merge_free(merge);
		for (uint32_t node = 0; node < 3; node++)
			check_spread(target, node);
		CHECK_EQ(target->ranks->count, 10);
		profile_free(target);
	}
}

TEST(missing_ranks_have_rows_and_make_the_profile_partial)
{
	struct profile *profile = merged(2, 10);
	struct profile *back;
	struct out out;

	ranks_complete(profile);
	CHECK_EQ(profile->ranks->count, 12);
	for (uint32_t rank = 0; rank < 12; rank++) {
		CHECK_EQ(profile->ranks->rows[rank].rank, rank);
		CHECK_EQ(profile->ranks->rows[rank].state,
			 rank < 2 || rank > 9 ? RANK_MISSING : RANK_FINISHED);
	}
	out_init(&out, -1);
	CHECK_DONE(profile_save(profile, &out, &err));
	CHECK_DONE(profile_load_bytes("saved", out.bytes, out.length, &back, &err));
	CHECK(profile_is_partial(back));
	out_fini(&out);
	profile_free(back);
	profile_free(profile);
}

TEST(gpu_of_a_rank_is_the_first_that_ran_a_kernel)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);
	struct profile *with_gpu = make_rank("gemm", 1000, 2);

	profile_info(with_gpu, "gpu1_pci", "0000:01:00.0");
	profile_info(with_gpu, "gpux_uuid", "no");
	profile_info(with_gpu, "gpu1_uuid", "GPU-b");
	profile_info(with_gpu, "gpu2_uuid", "GPU-c");
	ranks_merge(merge, target, with_gpu, 0);
	ranks_merge(merge, target, make_rank("gemm", 1000, 2), 1);
	ranks_settle(target, NULL, NULL);
	merge_free(merge);
	CHECK_STR(profile_text(target, target->ranks->rows[0].gpu), "GPU-b");
	CHECK_STR(profile_text(target, target->ranks->rows[1].gpu), "");
	profile_free(target);
}

TEST(nodes_beyond_the_limit_are_summed_in_one)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);
	uint64_t total = 0;
	char name[32];

	merge_limit(merge, 5);
	for (uint32_t rank = 0; rank < 100; rank++) {
		snprintf(name, sizeof(name), "kernel_of_%u", rank);
		ranks_merge(merge, target, make_rank(name, 1000, 100), rank);
	}
	ranks_settle(target, NULL, NULL);
	CHECK_EQ(target->node_count, 6); /* the limit, and MERGE_OTHER */
	CHECK_NE(target->ranks->other, 0);
	CHECK(!ranks_spread(target, target->ranks->other));
	CHECK_EQ(ranks_spread(target, 0)->ranks, 100);
	for (size_t k = 1; k < target->kernel_count; k++)
		total += target->kernels[k].total_ns;
	CHECK_U64(total, 100000);
	merge_free(merge);
	profile_free(target);
}

TEST(saved_profile_equals_the_one_in_memory)
{
	struct profile *profile = ranks_reload(make_rank("gemm", 5000, 4));
	const struct profile_kernel *kernel = &profile->kernels[profile->nodes[2].first_kernel];

	CHECK_STR(profile_text(profile, profile->frames[profile->nodes[2].frame].name), "gemm");
	CHECK_EQ(profile->frames[profile->nodes[2].frame].kind, FRAME_KERNEL);
	CHECK_U64(kernel->count, 2);
	CHECK_U64(kernel->total_ns, 5000);
	CHECK_U64(kernel->max_ns, 4999);
	CHECK_EQ(profile->values[profile->nodes[1].first_value].as.float64 == 0.1, 1);
	CHECK_STR(profile_info_text(profile, "world_size"), "4");
	CHECK(!profile->ranks);
	profile_free(profile);
}
