/* NVTX payloads: the communicator of NCCL's ranges, by the names in registered schemas. */
#include "unit/recorded.h"

#include "record/names/frames.h"
#include "record/nvtx/nvtx.h"
#include "record/store/devices.h"
#include "record/thread/record_launch.h"
#include "unit/fake_nvtx.h"
#include "unit/merged_ranks.h"

#define ALL_REDUCE ((1u << 24) + 5)
#define INIT ((1u << 24) + 0)
#define KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
#define FIELDS (NVTX_SCHEMA_ENTRIES | NVTX_SCHEMA_ENTRY_COUNT | NVTX_SCHEMA_SIZE | NVTX_SCHEMA_ID)

/* The arguments of two functions of NCCL. */
struct all_reduce {
	uint64_t communicator;
	size_t bytes;
	int operation;
};

struct init {
	uint64_t communicator;
	int ranks, rank, device;
};

static const struct nvtx_schema_entry all_reduce_entries[] = {
	{.type = NVTX_ENTRY_UINT64, .name = "NCCL communicator ID"},
	{.type = NVTX_ENTRY_SIZE, .name = "Message size [bytes]", .offset = 8},
	{.type = (1u << 24) + 11, .name = "Reduction operation", .offset = 16},
};
static const struct nvtx_schema_entry init_entries[] = {
	{.type = NVTX_ENTRY_UINT64, .name = "NCCL communicator ID"},
	{.type = NVTX_ENTRY_INT, .name = "No. of ranks", .offset = 8},
	{.type = NVTX_ENTRY_INT, .name = "Rank", .offset = 12},
	{.type = NVTX_ENTRY_INT, .name = "CUDA device", .offset = 16},
};

static const void *nccl; /* the domain */
static const void *all_reduce_name, *start_name, *end_name, *init_name;

static uint64_t schema_of(const struct nvtx_schema_entry *entries, size_t count, uint64_t id)
{
	const struct nvtx_schema schema = {
		.fields = FIELDS, .type = 1, .entries = entries, .entry_count = count, .id = id};

	return register_schema(nccl, &schema);
}

static void start_as(const char *context)
{
	struct proton_error err = {0};

	CHECK_EQ(InitializeInjectionNvtx2(get_table), 1);
	load_payload_extension();
	nccl = nvtx.create_a("NCCL");
	all_reduce_name = nvtx.register_a(nccl, "ncclAllReduce");
	start_name = nvtx.register_a(nccl, "ncclGroupStart");
	end_name = nvtx.register_a(nccl, "ncclGroupEnd");
	init_name = nvtx.register_a(nccl, "ncclCommInitRank");
	CHECK_U64(schema_of(all_reduce_entries, ARRAY_LENGTH(all_reduce_entries), ALL_REDUCE),
		  ALL_REDUCE);
	CHECK_U64(schema_of(init_entries, ARRAY_LENGTH(init_entries), INIT), INIT);
	CHECK_LE(0, rec_start_as("a", context, &err));
}

static void start(void)
{
	start_as("shadow");
}

static int push(const void *name, const struct nvtx_payload_data *data, int32_t count)
{
	struct nvtx_attributes attributes = {
		.version = 3,
		.size = sizeof(attributes),
		.payload_type = NVTX_PAYLOAD_EXTENDED,
		.payload_count = count,
		.payload = (uintptr_t)data,
		.message_type = NVTX_TEXT_REGISTERED,
		.message.registered = name,
	};

	return nvtx.domain_push_ex(nccl, &attributes);
}

static void push_all_reduce(uint64_t communicator)
{
	const struct all_reduce arguments = {communicator, 4096, 0};
	const struct nvtx_payload_data data = {ALL_REDUCE, sizeof(arguments), &arguments};

	push(all_reduce_name, &data, 1);
}

/* Its range ends with the communicator, which is not known before. */
static void init(uint64_t communicator, int ranks)
{
	const struct init arguments = {communicator, ranks, 0, 0};
	const struct nvtx_payload_data data = {INIT, sizeof(arguments), &arguments};

	push(init_name, NULL, 0);
	pop_payload(nccl, &data, 1);
}

/* A kernel of this duration, launched here. */
static void kernel(uint64_t duration_ns)
{
	const struct execution execution = {
		.frame = frames_add(FRAME_KERNEL, KERNEL, strlen(KERNEL)),
		.device = devices_add(&(struct device){.type = "CUDA"}),
		.start_ns = 1000,
		.end_ns = 1000 + duration_ns,
	};

	record_kernel(proton_context_here(), &execution);
}

static void all_reduce(uint64_t communicator, uint64_t duration_ns)
{
	push_all_reduce(communicator);
	kernel(duration_ns);
	nvtx.domain_pop(nccl);
}

/* The kernels that were launched below `path`. */
static uint64_t kernels_at(const struct profile *profile, const char *path)
{
	char text[256];

	snprintf(text, sizeof(text), "%s/" KERNEL, path);
	return rec_count(profile, text);
}

/* The durations of a communicator, of up to 8 occurrences; their number. */
static size_t durations_of(const struct profile *profile, uint64_t communicator, uint64_t found[8])
{
	char group[40];
	size_t count = 0;

	snprintf(group, sizeof(group), "communicator %016llx", (unsigned long long)communicator);
	for (size_t r = 0; r < profile->waits->duration_count; r++) {
		const struct row_durations *row = &profile->waits->durations[r];

		for (uint32_t i = 0; i < row->count; i++)
			if (strcmp(profile_text(profile, row->group), group) == 0 && count < 8)
				found[count++] = duration_of_code(row->code[i]);
	}
	return count;
}

TEST(the_scope_of_a_collective_has_the_size_of_its_communicator)
{
	start();
	init(0xabc, 8);
	all_reduce(0xabc, 10);
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "ncclAllReduce [8 ranks]"), 1);
	CHECK_U64(rec_node(profile, "ncclCommInitRank [8 ranks]"), REC_NOWHERE);
}

TEST(communicators_of_one_size_are_numbered)
{
	start();
	init(0xabc, 2);
	init(0xdef, 2);
	init(0x123, 1);
	all_reduce(0xdef, 10);
	all_reduce(0xabc, 10);
	all_reduce(0x123, 10);
	all_reduce(0x999, 10); /* it was made before Proton was loaded */
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "ncclAllReduce [2 ranks]"), 1);
	CHECK_U64(kernels_at(profile, "ncclAllReduce [2 ranks #2]"), 1);
	CHECK_U64(kernels_at(profile, "ncclAllReduce [1 rank]"), 1);
	CHECK_U64(kernels_at(profile, "ncclAllReduce [communicator]"), 1);
}

TEST(communicators_that_are_made_before_the_session_are_known)
{
	start();
	rec_finalize(PROTON_ALL_SESSIONS, "none");
	init(0xabc, 4);
	rec_start("a");
	all_reduce(0xabc, 10);
	CHECK_U64(kernels_at(rec_finish(), "ncclAllReduce [4 ranks]"), 1);
}

/* Interleaved calls on two communicators, as of tensor and data parallelism. */
static void interleave(void)
{
	init(0xabc, 2);
	init(0xdef, 2);
	for (uint64_t i = 0; i < 3; i++) {
		all_reduce(0xabc, 100 + i);
		all_reduce(0xdef, 200 + i);
	}
}

static void check_interleaved(const struct profile *profile)
{
	uint64_t found[8] = {0};

	CHECK_U64(durations_of(profile, 0xabc, found), 3);
	CHECK_U64(found[0], 100);
	CHECK_U64(found[2], 102);
	CHECK_U64(durations_of(profile, 0xdef, found), 3);
	CHECK_U64(found[0], 200);
	CHECK_U64(found[2], 202);
}

TEST(interleaved_communicators_are_separate_groups)
{
	start();
	interleave();
	struct profile *profile = rec_finish();
	check_interleaved(profile);
}

static uint32_t provide_source(void)
{
	return proton_context_child(PROTON_CONTEXT_ROOT, proton_frame("train.py", 8));
}

/* A source context is the same for both. */
TEST(interleaved_communicators_are_separate_groups_in_source_contexts)
{
	proton_context_provider_set(provide_source, NULL);
	start_as("python");
	interleave();
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "train.py"), 6);
	check_interleaved(profile);
}

/* A rank of a job, in its own process: a communicator of all ranks, and one of each pair. */
static struct profile *rank_of_job(uint64_t pair, uint64_t of_all_ns, uint64_t of_pair_ns)
{
	const char *path = rec_path("a"); /* makes the directory of both processes */
	pid_t child = path ? fork() : -1;
	struct profile *profile;
	int status;

	CHECK_LE(0, child);
	if (!child) {
		start();
		init(0xabc, 4);
		init(pair, 2);
		for (int i = 0; i < 5; i++) {
			all_reduce(0xabc, of_all_ns);
			all_reduce(pair, of_pair_ns);
		}
		rec_finalize(PROTON_ALL_SESSIONS, "proton");
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	CHECK_DONE(profile_load_file(rec_path("a.proton"), &profile, &err));
	return profile; /* ranks_merge() frees it */
}

TEST(ranks_wait_in_their_own_communicator)
{
	static const uint64_t of_all[] = {1000, 400, 1000, 1000};
	static const uint64_t of_pair[] = {10, 30, 500, 580}; /* pairs differ in their work */
	struct profile *job = profile_new();
	struct merge *merge = merge_new(job);
	const struct row_wait *all = NULL;
	const struct row_wait *pairs = NULL;

	for (uint32_t rank = 0; rank < 4; rank++)
		ranks_merge(merge, job,
			    rank_of_job(rank < 2 ? 0x111 : 0x222, of_all[rank], of_pair[rank]),
			    rank);
	ranks_settle(job, NULL, NULL);
	merge_free(merge);
	ranks_complete(job);
	CHECK_U64(job->waits->count, 2);
	for (size_t i = 0; i < job->waits->count; i++) {
		const struct row_wait *row = &job->waits->series[i].row;

		*(row->groups == 1 ? &all : &pairs) = row;
	}
	CHECK(all && pairs);
	CHECK_U64(all->wait_ns, UINT64_C(5) * 3 * 600);
	CHECK_U64(all->top_rank[0], 1);
	CHECK_U64(all->top_count[0], 5);
	CHECK_U64(pairs->groups, 2);
	CHECK_U64(pairs->wait_ns, UINT64_C(5) * (20 + 80));
	CHECK_U64(pairs->top_rank[0], 2);
	CHECK_U64(pairs->top_rank[1], 0);
	profile_free(job);
}

TEST(a_group_call_launches_the_kernels_of_its_calls)
{
	uint64_t found[8];

	start();
	init(0xabc, 8);
	init(0xdef, 2);
	for (int i = 0; i < 2; i++) {
		push(start_name, NULL, 0);
		nvtx.domain_pop(nccl);
		push(start_name, NULL, 0); /* nested */
		nvtx.domain_pop(nccl);
		push_all_reduce(0xabc);
		nvtx.domain_pop(nccl);
		push(end_name, NULL, 0);
		nvtx.domain_pop(nccl);
		push_all_reduce(i ? 0xdef : 0xabc); /* the second time on both */
		nvtx.domain_pop(nccl);
		push(end_name, NULL, 0);
		kernel(10 + (uint64_t)i);
		nvtx.domain_pop(nccl);
	}
	push(end_name, NULL, 0); /* its start was not recorded */
	kernel(12);
	nvtx.domain_pop(nccl);
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "ncclGroupEnd [8 ranks]"), 1);
	CHECK_U64(kernels_at(profile, "ncclGroupEnd [2 communicators]"), 1);
	CHECK_U64(kernels_at(profile, "ncclGroupEnd"), 1);
	CHECK_U64(durations_of(profile, 0xabc, found), 1);
	CHECK_U64(durations_of(profile, 0xabc + 0xdef, found), 1);
}

TEST(a_group_call_with_too_many_communicators_is_compared_with_no_other)
{
	uint64_t found[8];
	uint64_t sum = 0;

	start();
	for (uint64_t count = 8; count <= 9; count++) {
		push(start_name, NULL, 0);
		nvtx.domain_pop(nccl);
		for (uint64_t i = 0; i < 2 * count; i++) { /* each twice */
			push_all_reduce(0x1000 + i % count);
			nvtx.domain_pop(nccl);
		}
		push(end_name, NULL, 0);
		kernel(count);
		nvtx.domain_pop(nccl);
	}
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "ncclGroupEnd [8 communicators]"), 1);
	CHECK_U64(kernels_at(profile, "ncclGroupEnd"), 1);
	for (uint64_t i = 0; i < 8; i++)
		sum += 0x1000 + i;
	CHECK_U64(durations_of(profile, sum, found), 1);
	CHECK_U64(found[0], 8);
}

/* ------------------------------------------------------------------ schemas */

static uint64_t id_in(uint64_t schema, const void *bytes, size_t size)
{
	const struct nvtx_payload_data data = {schema, size, bytes};

	return nvtx_payload_communicator(nccl, &data, 1).id;
}

TEST(fields_are_found_by_name_and_by_natural_alignment)
{
	static const struct nvtx_schema_entry entries[] = {
		{.type = NVTX_ENTRY_CHAR, .name = "x"},
		{.type = NVTX_ENTRY_INT, .name = "nRanks"},
		{.type = NVTX_ENTRY_CHAR,
		 .name = "text",
		 .flags = NVTX_ENTRY_ARRAY_FIXED,
		 .length = 5},
		{.type = NVTX_ENTRY_INT, .name = "address", .flags = NVTX_ENTRY_POINTER},
		{.type = NVTX_ENTRY_UINT64, .name = "Parent NCCL communicator ID"},
		{.type = NVTX_ENTRY_UINT64, .name = "commHash"},
	};
	const struct {
		char x;
		int ranks;
		char text[5];
		const int *address;
		uint64_t parent, communicator;
	} payload = {'x', 16, "text", NULL, 1, 2};
	struct nvtx_payload_data data = {0, sizeof(payload), &payload};

	start();
	uint64_t schema = data.schema = schema_of(entries, ARRAY_LENGTH(entries), 0);
	CHECK_LE(NVTX_SCHEMA_DYNAMIC_START, schema);
	CHECK_U64(nvtx_payload_communicator(nccl, &data, 1).id, 2);
	CHECK_U64(nvtx_payload_communicator(nccl, &data, 1).ranks, 16);
	CHECK_U64(id_in(schema, &payload, sizeof(payload) - 1), 0);
	CHECK_U64(nvtx_payload_communicator(&payload, &data, 1).id, 0); /* another domain */
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(the_newest_schema_of_an_id_counts)
{
	static const struct nvtx_schema_entry later[] = {
		{.type = NVTX_ENTRY_UINT64, .name = "other"},
		{.type = NVTX_ENTRY_UINT64, .name = "communicator", .offset = 8},
	};
	static const struct nvtx_schema_entry none[] = {{.type = NVTX_ENTRY_UINT64, .name = "x"}};
	const uint64_t payload[] = {1, 2};

	start();
	CHECK_U64(id_in(ALL_REDUCE, payload, sizeof(payload)), 1);
	schema_of(later, ARRAY_LENGTH(later), ALL_REDUCE);
	CHECK_U64(id_in(ALL_REDUCE, payload, sizeof(payload)), 2);
	schema_of(none, ARRAY_LENGTH(none), ALL_REDUCE);
	CHECK_U64(id_in(ALL_REDUCE, payload, sizeof(payload)), 0);
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(a_payload_of_unknown_size_has_that_of_its_schema)
{
	const struct nvtx_schema schema = {.fields = FIELDS,
					   .entries = all_reduce_entries,
					   .entry_count = 1,
					   .size = 8,
					   .id = 1u << 25};
	const uint64_t payload = 7;

	start();
	CHECK_U64(register_schema(nccl, &schema), 1u << 25);
	CHECK_U64(id_in(1u << 25, &payload, SIZE_MAX), 7);
	CHECK_U64(id_in(ALL_REDUCE, &payload, SIZE_MAX), 0); /* its schema has no size */
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(damaged_payloads_do_no_harm)
{
	const struct all_reduce arguments = {0xabc, 1, 0};
	struct nvtx_payload_data data[] = {
		{ALL_REDUCE, 0, &arguments}, {ALL_REDUCE, 7, &arguments},
		{ALL_REDUCE, 24, NULL},      {ALL_REDUCE + 1, 24, &arguments},
		{0, SIZE_MAX, NULL},
	};
	static const int32_t counts[] = {-1, 0, 1, 17, INT32_MAX};

	start();
	for (size_t i = 0; i < ARRAY_LENGTH(data); i++) {
		push(all_reduce_name, &data[i], 1);
		kernel(1);
		nvtx.domain_pop(nccl);
	}
	for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
		push(all_reduce_name, counts[i] == 1 ? NULL : data, counts[i]);
		kernel(1);
		nvtx.domain_pop(nccl);
	}
	pop_payload(nccl, NULL, SIZE_MAX);
	pop_payload(nccl, data, 5);
	CHECK_U64(kernels_at(rec_finish(), "ncclAllReduce"), 10);
}

static uint32_t next(uint32_t *random)
{
	*random = *random * 1664525u + 1013904223u;
	return *random >> 16;
}

/* No schema makes a payload be read outside of its bytes: AddressSanitizer would see it. */
TEST(damaged_schemas_do_no_harm)
{
	static const uint64_t wild[] = {0,
					1,
					5,
					8,
					18,
					22,
					23,
					24,
					27,
					1u << 24,
					4096,
					4097,
					UINT32_MAX,
					(uint64_t)UINT32_MAX + 1,
					UINT64_MAX - 7,
					UINT64_MAX};
	static const char *const names[] = {"communicator", "ranks", NULL, ""};
	uint32_t random = 1;

	start();
	CHECK_U64(register_schema(nccl, NULL), 0);
	for (int round = 0; round < 2000; round++) {
		struct nvtx_schema_entry entries[4];
		struct nvtx_schema schema = {.entries = entries, .id = ALL_REDUCE};
		char *payload;
		size_t size;

		for (size_t i = 0; i < ARRAY_LENGTH(entries); i++)
			entries[i] = (struct nvtx_schema_entry){
				.flags = next(&random) % 4
						 ? 0
						 : wild[next(&random) % ARRAY_LENGTH(wild)],
				.type = wild[next(&random) % ARRAY_LENGTH(wild)],
				.name = names[next(&random) % ARRAY_LENGTH(names)],
				.length = wild[next(&random) % ARRAY_LENGTH(wild)],
				.offset = wild[next(&random) % ARRAY_LENGTH(wild)],
			};
		schema.fields = next(&random) % 8 ? FIELDS | NVTX_SCHEMA_ALIGNMENT : next(&random);
		schema.entry_count = next(&random) % (ARRAY_LENGTH(entries) + 1);
		schema.size = next(&random) % 16;
		schema.alignment = wild[next(&random) % ARRAY_LENGTH(wild)];
		register_schema(nccl, &schema);
		size = next(&random) % 64;
		payload = calloc(1, size ? size : 1);
		id_in(ALL_REDUCE, payload, size);
		free(payload);
	}
	rec_finalize(PROTON_ALL_SESSIONS, "none");
}

TEST(any_number_of_communicators_does_no_harm)
{
	start();
	for (uint64_t i = 1; i <= 3000; i++)
		all_reduce(i, 1);
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "ncclAllReduce [communicator #1024]"), 1);
	CHECK_U64(kernels_at(profile, "ncclAllReduce"), 3000 - 1024);
}

static void *call(void *communicator)
{
	for (int i = 0; i < 200; i++) {
		init(*(uint64_t *)communicator, 2);
		all_reduce(*(uint64_t *)communicator, 10);
	}
	return NULL;
}

/* A process with several GPUs has a thread for each. */
TEST(threads_use_communicators_at_once)
{
	static uint64_t ids[4] = {1, 1, 2, 2};
	pthread_t threads[4];

	start();
	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, call, &ids[i]), 0);
	for (size_t i = 0; i < ARRAY_LENGTH(threads); i++)
		pthread_join(threads[i], NULL);
	struct profile *profile = rec_finish();
	CHECK_U64(kernels_at(profile, "ncclAllReduce [2 ranks]"), 400);
	CHECK_U64(kernels_at(profile, "ncclAllReduce [2 ranks #2]"), 400);
}
