/* record/store_collectives: names of collectives, durations by occurrence, limit, clearing. */
#include "unit/recorded.h"

#include "record/store/store.h"

#define FULL (256u * DURATIONS_PER_ROW)

TEST(kernels_of_all_libraries_are_collectives)
{
	static const char *const names[] = {
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
		"ncclKernel_AllGather_RING_LL_Sum_int8_t",
		"ncclSymkDevKernel_AllReduce_AGxLLMC_R_Sum_f32",
		"mscclKernel_Sum_half_Simple_false",
		"_ZN4vllm26cross_device_reduce_1stageI6__halfLi2EEEvPNS_8RankDataE",
		"multimem_all_reduce_kernel",
		"nvshmemi_barrier_all",
		"void tensorrt_llm::kernels::oneShotAllReduceKernel<half>()",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!store_collectives_match(names[i]))
			FAIL("%s is not a collective", names[i]);
	CHECK(!store_collectives_match("ampere_sgemm_128x64_tn"));
	CHECK(!store_collectives_match("reduce_kernel<512, 1>"));
}

TEST(own_names_match_a_regular_expression)
{
	setenv("PROTON_COLLECTIVES", "^my_(gather|reduce)", 1);
	CHECK(store_collectives_match("my_reduce_2"));
	CHECK(!store_collectives_match("a_my_reduce"));
	CHECK(store_collectives_match("ncclDevKernel_Broadcast"));
}

/* Occurrences `first` to `end` of a collective, each with its number in ns as its duration. */
static void add(const char *scope, uint32_t first, uint32_t end)
{
	uint64_t token = proton_scope_enter(scope);

	for (uint32_t i = first; i < end; i++)
		proton_collective(proton_context_here(), i);
	proton_scope_exit(token, NULL);
}

/* All durations are those of their occurrences, and all of `stride` are there. */
static void check_durations(const struct profile *profile, uint32_t total, uint32_t stride)
{
	uint32_t count = 0;

	for (size_t r = 0; r < profile->waits->duration_count; r++) {
		const struct row_durations *row = &profile->waits->durations[r];

		CHECK_U64(row->stride, stride);
		CHECK_U64(row->flags, COLLECTIVE_HOST);
		for (uint32_t i = 0; i < row->count; i++)
			CHECK_U64(row->code[i], duration_code(row->first + i * stride));
		count += row->count;
	}
	CHECK_U64(count, (total + stride - 1) / stride);
}

TEST(occurrences_have_their_durations)
{
	rec_start("a");
	add("reduce", 0, 120);
	struct profile *profile = rec_finish();
	CHECK_U64(profile->waits->duration_count, 3);
	check_durations(profile, 120, 1);
}

TEST(beyond_the_limit_one_in_several_occurrences_is_kept)
{
	rec_start("a");
	add("reduce", 0, FULL);
	add("reduce", FULL, 3 * FULL + 7);
	struct profile *profile = rec_finish();
	check_durations(profile, 3 * FULL + 7, 4);
}

TEST(a_cleared_phase_takes_its_occurrences_with_it)
{
	int session = rec_start("a");

	add("reduce", 5000, 5200);
	CHECK_DONE(proton_phase_clear(session, 0, false, &err));
	add("reduce", 0, 60);
	struct profile *profile = rec_finish();
	check_durations(profile, 60, 1);
}

TEST(kernels_of_one_context_are_occurrences_of_one_collective)
{
	rec_start("a");
	for (int i = 0; i < 7; i++) {
		rec_kernel("gemm");
		rec_kernel("ncclDevKernel_AllReduce");
	}
	struct profile *profile = rec_finish();
	CHECK_U64(profile->waits->duration_count, 1);
	CHECK_U64(profile->waits->durations[0].count, 7);
	CHECK_U64(profile->waits->durations[0].flags, 0);
}

TEST(many_contexts_have_a_limit_that_is_counted)
{
	uint64_t lost = 0;

	rec_start("a");
	for (int i = 0; i < 16400; i++) {
		char name[32];

		snprintf(name, sizeof(name), "reduce %d", i);
		add(name, 0, 1);
	}
	struct profile *profile = rec_finish();
	for (size_t i = 0; i < profile->counter_count; i++)
		if (strstr(profile_text(profile, profile->counters[i].name), "collective"))
			lost += profile->counters[i].value;
	CHECK_U64(profile->waits->duration_count, 16384);
	CHECK_U64(lost, 16);
}
