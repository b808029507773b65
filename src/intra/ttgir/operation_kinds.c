/* Which operations of TTGIR get automatic scopes, of which kinds and with which names. */
#include "intra/ttgir/find_operations.h"

static const struct operation operations[] = {
	{"load", "load", INSTRUMENT_AUTO_LOADS},
	{"descriptor_load", "descriptor_load", INSTRUMENT_AUTO_LOADS},
	{"descriptor_gather", "descriptor_gather", INSTRUMENT_AUTO_LOADS},
	{"async_copy_global_to_local", "async_copy", INSTRUMENT_AUTO_LOADS},
	{"async_tma_copy_global_to_local", "tma_load", INSTRUMENT_AUTO_LOADS},
	{"async_tma_gather", "tma_gather", INSTRUMENT_AUTO_LOADS},
	{"async_tdm_copy_global_to_local", "tdm_load", INSTRUMENT_AUTO_LOADS},
	{"async_tdm_gather", "tdm_gather", INSTRUMENT_AUTO_LOADS},
	{"buffer_load", "load", INSTRUMENT_AUTO_LOADS},
	{"buffer_load_to_local", "load_to_local", INSTRUMENT_AUTO_LOADS},
	{"masked_load", "load", INSTRUMENT_AUTO_LOADS},

	{"dot", "dot", INSTRUMENT_AUTO_DOTS},
	{"dot_scaled", "dot_scaled", INSTRUMENT_AUTO_DOTS},
	{"warp_group_dot", "dot", INSTRUMENT_AUTO_DOTS},
	{"tc_gen5_mma", "dot", INSTRUMENT_AUTO_DOTS},
	{"tc_gen5_mma_scaled", "dot_scaled", INSTRUMENT_AUTO_DOTS},

	{"store", "store", INSTRUMENT_AUTO_STORES},
	{"descriptor_store", "descriptor_store", INSTRUMENT_AUTO_STORES},
	{"descriptor_scatter", "descriptor_scatter", INSTRUMENT_AUTO_STORES},
	{"descriptor_reduce", "descriptor_reduce", INSTRUMENT_AUTO_STORES},
	{"async_tma_copy_local_to_global", "tma_store", INSTRUMENT_AUTO_STORES},
	{"async_tma_scatter", "tma_scatter", INSTRUMENT_AUTO_STORES},
	{"async_tma_reduce", "tma_reduce", INSTRUMENT_AUTO_STORES},
	{"async_tdm_copy_local_to_global", "tdm_store", INSTRUMENT_AUTO_STORES},
	{"async_tdm_scatter", "tdm_scatter", INSTRUMENT_AUTO_STORES},
	{"async_copy_local_to_global", "async_store", INSTRUMENT_AUTO_STORES},
	{"buffer_store", "store", INSTRUMENT_AUTO_STORES},
	{"masked_store", "store", INSTRUMENT_AUTO_STORES},
	{"atomic_rmw", "atomic", INSTRUMENT_AUTO_STORES},
	{"atomic_cas", "atomic_cas", INSTRUMENT_AUTO_STORES},
	{"buffer_atomic_rmw", "atomic", INSTRUMENT_AUTO_STORES},
	{"buffer_atomic_cas", "atomic_cas", INSTRUMENT_AUTO_STORES},

	{"async_wait", "async_wait", INSTRUMENT_AUTO_WAITS},
	{"warp_group_dot_wait", "dot_wait", INSTRUMENT_AUTO_WAITS},
	{"wait_barrier", "wait_barrier", INSTRUMENT_AUTO_WAITS},
	{"async_tma_store_wait", "store_wait", INSTRUMENT_AUTO_WAITS},
	{"async_tdm_wait", "tdm_wait", INSTRUMENT_AUTO_WAITS},
	{"async_tdm_intrinsic_wait", "tdm_wait", INSTRUMENT_AUTO_WAITS},
	{"barrier", "barrier", INSTRUMENT_AUTO_WAITS},
	{"cluster_barrier", "cluster_barrier", INSTRUMENT_AUTO_WAITS},
	{"cluster_barrier_wait", "cluster_barrier", INSTRUMENT_AUTO_WAITS},
	{"cluster_wait", "cluster_wait", INSTRUMENT_AUTO_WAITS},
	{"atomic_poll", "atomic_poll", INSTRUMENT_AUTO_WAITS},
	{"grid_dependency_wait", "grid_dependency_wait", INSTRUMENT_AUTO_WAITS},
};
#define OPERATION_COUNT (sizeof(operations) / sizeof(operations[0]))

const struct operation *operations_lookup(struct slice op)
{
	static const char *const dialects[] = {"tt.", "ttg.", "ttng.", "amdg.", "amdgpu.", "gpu."};

	for (size_t i = 0; i < sizeof(dialects) / sizeof(dialects[0]); i++) {
		struct slice name = op;

		if (!slice_take(&name, dialects[i]))
			continue;
		for (size_t k = 0; k < OPERATION_COUNT; k++)
			if (slice_is(name, operations[k].name))
				return &operations[k];
	}
	return NULL;
}

uint32_t operations_kind(struct slice op)
{
	const struct operation *operation = operations_lookup(op);

	return operation ? operation->kind : 0;
}

uint32_t operations_kinds_of_scope(struct slice word)
{
	uint32_t kinds = 0;

	for (size_t i = 0; i < OPERATION_COUNT; i++)
		if (slice_is(word, operations[i].word))
			kinds |= operations[i].kind;
	return kinds;
}
