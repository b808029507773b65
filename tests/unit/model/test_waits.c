/* model/waits: waiting in collectives, from durations of ranks added one by one and in parts. */
#include "unit/merged_ranks.h"

#include "base/array.h"
#include "model/waits.h"

#define STEPS 40u

TEST(codes_of_durations_are_monotone_and_close)
{
	uint16_t before = 0;

	for (uint64_t ns = 0; ns < (1ull << 41); ns += ns / 97 + 1) {
		uint16_t code = duration_code(ns);
		uint64_t back = duration_of_code(code);

		CHECK(code >= before);
		CHECK(back <= ns && ns - back <= ns / 2048);
		before = code;
	}
	CHECK_U64(duration_of_code(duration_code(4095)), 4095);
	CHECK_U64(duration_code(UINT64_MAX), UINT16_MAX);
}

static void put_group(struct profile *profile, uint32_t node, const char *group)
{
	uint32_t metric = profile_metric(profile, profile_string(profile, GROUP_METRIC, 5),
					 PROTON_METRIC_STRING, 0);

	profile_value(profile, node, metric)->as.string =
		profile_string(profile, group, strlen(group));
}

/* Adds durations of 1000 ns, and of 3000 ns in the steps in which the rank is not the last one. */
static void put_durations(struct profile *profile, uint32_t node, uint32_t rank, uint32_t late,
			  uint32_t steps, uint32_t stride)
{
	struct profile_waits *waits = profile->waits;

	for (uint32_t k = 0; k < steps; k += DURATIONS_PER_ROW) {
		struct row_durations row = {.node = node, .stride = stride, .first = k * stride};

		for (uint32_t i = 0; i < DURATIONS_PER_ROW && k + i < steps; i++) {
			bool is_late = rank == late && (k + i) * stride % 4 != 3;

			row.code[row.count++] = duration_code(is_late ? 1000 : 3000);
		}
		CHECK(ARRAY_ADD(waits->durations, waits->duration_count, row));
	}
}

/* A rank of two communicators of 4: ranks 1 and 6 are late in three of four steps. */
static struct profile *make_rank(uint32_t rank, uint32_t stride)
{
	struct profile *profile = profile_new();
	uint32_t scope = ranks_node(profile, 0, "backward", FRAME_NAME);
	uint32_t node = ranks_node(profile, scope, "ncclDevKernel_AllReduce", FRAME_KERNEL);

	ranks_kernel(profile, ranks_node(profile, scope, "gemm", FRAME_KERNEL),
		     (struct profile_kernel){.count = 1, .total_ns = rank == 6 ? 900000 : 200000});
	put_group(profile, scope, rank < 4 ? "0-3" : "4-7");
	profile->waits = calloc(1, sizeof(*profile->waits));
	put_durations(profile, node, rank, rank < 4 ? 1 : 6, STEPS / stride, stride);
	CHECK(!profile->out_of_memory);
	return profile;
}

static struct profile *part(uint32_t first, uint32_t end, uint32_t stride)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);

	for (uint32_t rank = first; rank < end; rank++)
		ranks_merge(merge, target, make_rank(rank, stride), rank);
	ranks_settle(target, NULL, NULL);
	merge_free(merge);
	return target;
}

/* The job from parts that begin at these ranks, sent as files. */
static struct profile *from_parts(const uint32_t *starts, size_t count, uint32_t stride)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);

	for (size_t i = 0; i + 1 < count; i++)
		ranks_merge_part(merge, target,
				 ranks_reload(part(starts[i], starts[i + 1], stride)));
	merge_free(merge);
	ranks_complete(target);
	return ranks_reload(target);
}

static void check_job(const struct profile *profile, uint32_t stride)
{
	const struct row_wait *row = &profile->waits->series[0].row;
	uint32_t compared = STEPS / stride;
	uint32_t came_last = stride == 1 ? STEPS * 3 / 4 : compared;

	CHECK_U64(profile->waits->count, 1);
	CHECK_U64(profile->waits->occurrences, 0);
	CHECK_U64(row->ranks, 8);
	CHECK_U64(row->groups, 2);
	CHECK_U64(row->stride, stride);
	CHECK_U64(row->occurrences, 2 * compared);
	/* In each step of a group with a late rank, 3 ranks wait for 2000 ns. */
	CHECK_U64(row->wait_ns, 2ull * came_last * 3 * 2000 * stride);
	CHECK_U64(row->time_ns, 7 * 200000 + 900000);
	CHECK_U64(row->top_ns[0], row->wait_ns / 2);
	CHECK_U64(row->top_ns[1], row->wait_ns / 2);
	CHECK_U64(row->top_rank[0], 1);
	CHECK_U64(row->top_rank[1], 6);
	CHECK(row->top_count[0] >= came_last && row->top_count[0] <= compared);
	CHECK_U64(row->top_of[0], compared);
}

TEST(waits_do_not_depend_on_the_parts)
{
	static const uint32_t one[] = {0, 8}, two[] = {0, 3, 8},
			      all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
	struct profile *jobs[] = {
		from_parts(one, ARRAY_LENGTH(one), 1),
		from_parts(two, ARRAY_LENGTH(two), 1),
		from_parts(all, ARRAY_LENGTH(all), 1),
	};

	for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++) {
		check_job(jobs[i], 1);
		CHECK(memcmp(&jobs[i]->waits->series[0].row, &jobs[0]->waits->series[0].row,
			     sizeof(struct row_wait)) == 0);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(jobs); i++)
		profile_free(jobs[i]);
}

TEST(ranks_with_different_strides_are_compared_at_the_larger_one)
{
	static const uint32_t starts[] = {0, 4, 8};
	struct profile *sparse = from_parts(starts, ARRAY_LENGTH(starts), 2);
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);

	check_job(sparse, 2);
	profile_free(sparse);
	for (uint32_t rank = 0; rank < 8; rank++)
		ranks_merge(merge, target, make_rank(rank, rank % 2 ? 2 : 1), rank);
	ranks_settle(target, NULL, NULL);
	merge_free(merge);
	ranks_complete(target);
	check_job(target, 2);
	profile_free(target);
}

TEST(a_rank_alone_does_not_wait)
{
	static const uint32_t starts[] = {0, 1};
	struct profile *job = from_parts(starts, ARRAY_LENGTH(starts), 1);

	CHECK_U64(job->waits->series[0].row.occurrences, 0);
	CHECK_U64(job->waits->series[0].row.wait_ns, 0);
	profile_free(job);
}

/* A step takes 5000 ns on all ranks; on rank 2 most of it is the kernel before the collective. */
static struct profile *make_step(uint32_t rank)
{
	uint64_t compute = rank == 2 ? 4500 : 1000;
	struct profile *profile = profile_new();
	uint32_t step = ranks_node(profile, 0, "step", FRAME_NAME);
	uint32_t gemm = ranks_node(profile, step, "gemm", FRAME_KERNEL);
	uint32_t reduce = ranks_node(profile, step, "ncclDevKernel_AllReduce", FRAME_KERNEL);

	ranks_kernel(profile, gemm, (struct profile_kernel){.count = 1, .total_ns = compute});
	ranks_kernel(profile, reduce,
		     (struct profile_kernel){.count = 1, .total_ns = 5000 - compute});
	profile->waits = calloc(1, sizeof(*profile->waits));
	CHECK(ARRAY_ADD(profile->waits->durations, profile->waits->duration_count,
			(struct row_durations){.node = reduce,
					       .stride = 1,
					       .count = 1,
					       .code = {duration_code(5000 - compute)}}));
	return profile;
}

TEST(waiting_names_the_rank_that_the_time_of_steps_does_not_show)
{
	struct profile *target = profile_new();
	struct merge *merge = merge_new(target);

	for (uint32_t rank = 0; rank < 4; rank++)
		ranks_merge(merge, target, make_step(rank), rank);
	ranks_settle(target, NULL, NULL);
	merge_free(merge);
	ranks_complete(target);
	const struct row_spread *step = ranks_spread(target, 1);
	CHECK_U64(step->min_ns, 5000);
	CHECK_U64(step->max_ns, 5000);
	const struct row_wait *wait = &target->waits->series[0].row;
	CHECK_EQ(wait->top_rank[0], 2);
	CHECK_EQ(wait->top_count[0], 1);
	/* Three ranks wait for 3500 ns, less what the codes of durations are rounded down. */
	CHECK(wait->wait_ns <= 3 * 3500 && wait->wait_ns > 3 * 3500 - 3 * 4000 / 2048 - 3);
	CHECK_U64(wait->top_ns[0], wait->wait_ns);
	profile_free(target);
}

/* A rank with this many contexts, each with one collective. */
static struct profile *make_wide_rank(uint32_t contexts)
{
	struct profile *profile = profile_new();
	char name[16];

	profile->waits = calloc(1, sizeof(*profile->waits));
	for (uint32_t i = 0; i < contexts; i++) {
		snprintf(name, sizeof(name), "%u", i);
		put_durations(profile, ranks_node(profile, 0, name, FRAME_NAME), 0, 0, 1, 1);
	}
	CHECK(!profile->out_of_memory);
	return profile;
}

TEST(more_contexts_than_are_kept_are_marked)
{
	for (uint32_t contexts = 65535; contexts <= 65537; contexts += 2) {
		struct profile *target = profile_new();
		struct merge *merge = merge_new(target);
		uint32_t flags = contexts > 65536 ? COLLECTIVE_LIMITED : 0;

		for (uint32_t rank = 0; rank < 2; rank++)
			ranks_merge(merge, target, make_wide_rank(contexts), rank);
		ranks_settle(target, NULL, NULL);
		merge_free(merge);
		ranks_complete(target);
		target = ranks_reload(target);
		CHECK_U64(target->waits->count, contexts < 65536 ? contexts : 65536);
		for (size_t i = 0; i < target->waits->count; i++)
			CHECK_EQ(target->waits->series[i].row.flags, flags);
		profile_free(target);
	}
}
