/* Which operations of TTGIR get automatic scopes, of which kinds and with which names. */
#include "intra/ttgir/find_operations.h"

#include "base/array.h"

#define ATOMICS (INSTRUMENT_AUTO_STORES | INSTRUMENT_AUTO_ATOMIC)

static const struct operation operations[] = {
	{"load", "load", INSTRUMENT_AUTO_LOADS},
	{"descriptor_load", "descriptor_load", INSTRUMENT_AUTO_LOADS},
	{"descriptor_gather", "descriptor_gather", INSTRUMENT_AUTO_LOADS},
	{"async_copy_global_to_local", "async_copy", INSTRUMENT_AUTO_LOADS},
	{"async_tma_copy_global_to_local", "tma_load", INSTRUMENT_AUTO_LOADS},
	{"async_tma_gather", "tma_gather", INSTRUMENT_AUTO_LOADS},
	{"async_tdm_copy_global_to_local", "tdm_load", INSTRUMENT_AUTO_LOADS},
	{"async_tdm_fused_copy_global_to_local", "tdm_load", INSTRUMENT_AUTO_LOADS},
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
	{"atomic_rmw", "atomic", ATOMICS},
	{"atomic_cas", "atomic_cas", ATOMICS},
	{"atomic_store", "atomic_store", ATOMICS},
	{"buffer_atomic_rmw", "atomic", ATOMICS},
	{"buffer_atomic_cas", "atomic_cas", ATOMICS},
	{"atomic_load", "atomic_load", INSTRUMENT_AUTO_LOADS | INSTRUMENT_AUTO_ATOMIC},

	{"reduce", "reduce", INSTRUMENT_AUTO_REDUCE},
	{"histogram", "histogram", INSTRUMENT_AUTO_REDUCE},
	{"scan", "scan", INSTRUMENT_AUTO_SCAN},
	{"convert_layout", "convert", INSTRUMENT_AUTO_CONVERT},
	{"gather", "gather", INSTRUMENT_AUTO_CONVERT},
	{"call", "call", INSTRUMENT_AUTO_CALL},
	{"", "math", INSTRUMENT_AUTO_MATH}, /* a run of operations: find_operations.c */
	{"elementwise_inline_asm", "asm", INSTRUMENT_AUTO_ASM},
	{"extern_elementwise", "extern", INSTRUMENT_AUTO_ASM},

	{"local_alloc", "local_alloc", INSTRUMENT_AUTO_LOCAL},
	{"local_load", "local_load", INSTRUMENT_AUTO_LOCAL},
	{"local_load_packed_transposed", "local_load", INSTRUMENT_AUTO_LOCAL},
	{"local_store", "local_store", INSTRUMENT_AUTO_LOCAL},
	{"async_shared_store", "local_store", INSTRUMENT_AUTO_LOCAL},
	{"local_gather", "local_gather", INSTRUMENT_AUTO_LOCAL},
	{"local_scatter", "local_scatter", INSTRUMENT_AUTO_LOCAL},
	{"local_atomic_scatter_rmw", "local_atomic",
	 INSTRUMENT_AUTO_LOCAL | INSTRUMENT_AUTO_ATOMIC},
	{"fence", "fence", INSTRUMENT_AUTO_LOCAL},
	{"fence_async_shared", "fence", INSTRUMENT_AUTO_LOCAL},

	{"tmem_alloc", "tmem_alloc", INSTRUMENT_AUTO_TMEM},
	{"tmem_load", "tmem_load", INSTRUMENT_AUTO_TMEM},
	{"tmem_store", "tmem_store", INSTRUMENT_AUTO_TMEM},
	{"tmem_copy", "tmem_copy", INSTRUMENT_AUTO_TMEM},
	{"tmem_wait", "tmem_wait", INSTRUMENT_AUTO_TMEM | INSTRUMENT_AUTO_WAITS},

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

bool operations_is_unknown(struct slice op)
{
	static const char *const words[] = {"load", "store", "copy",   "atomic",
					    "dot",  "mma",   "gather", "scatter"};
	const char *dot = slice_find(op, ".");
	struct slice name = dot ? slice_between(dot + 1, slice_end(op)) : op;
	bool is_found = false;

	for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
		is_found |= slice_find(name, words[i]) != NULL;
	return is_found && !operations_lookup(op) &&
	       !slice_is_any(name, "decomposed_dot_scaled_source async_copy_mbarrier_arrive "
				   "clc_load_result bypass_lds_load");
}

uint32_t operations_kind(struct slice op)
{
	const struct operation *operation = operations_lookup(op);

	return operation ? operation->kind : 0;
}

bool operations_is_detail(struct slice word)
{
	uint32_t kinds = operations_kinds_of_scope(word);

	return kinds && !(kinds & (INSTRUMENT_AUTO_LOADS | INSTRUMENT_AUTO_DOTS |
				   INSTRUMENT_AUTO_STORES | INSTRUMENT_AUTO_WAITS));
}

uint32_t operations_kinds_of_scope(struct slice word)
{
	uint32_t kinds = 0;

	for (size_t i = 0; i < OPERATION_COUNT; i++)
		if (slice_is(word, operations[i].word))
			kinds |= operations[i].kind;
	return kinds;
}
