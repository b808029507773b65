/* Which operations of TTGIR get automatic scopes, of which kinds and with which names. */
#include "intra/ttgir/find_operations.h"

#include "base/array.h"

/* Names without the dialect. "NAME=WORD": the names of its scopes begin with another word. */
static const struct {
	uint32_t kinds;
	const char *names;
} operations[] = {
	{INSTRUMENT_AUTO_LOADS,
	 "load descriptor_load descriptor_gather async_copy_global_to_local=async_copy "
	 "async_tma_copy_global_to_local=tma_load async_tma_gather=tma_gather "
	 "async_tdm_copy_global_to_local=tdm_load "
	 "async_tdm_fused_copy_global_to_local=tdm_load async_tdm_gather=tdm_gather "
	 "buffer_load=load buffer_load_to_local=load_to_local masked_load=load"},
	{INSTRUMENT_AUTO_DOTS, "dot dot_scaled warp_group_dot=dot tc_gen5_mma=dot "
			       "tc_gen5_mma_scaled=dot_scaled"},
	{INSTRUMENT_AUTO_STORES,
	 "store descriptor_store descriptor_scatter descriptor_reduce "
	 "async_tma_copy_local_to_global=tma_store async_tma_scatter=tma_scatter "
	 "async_tma_reduce=tma_reduce async_tdm_copy_local_to_global=tdm_store "
	 "async_tdm_scatter=tdm_scatter async_copy_local_to_global=async_store "
	 "buffer_store=store masked_store=store"},
	{INSTRUMENT_AUTO_STORES | INSTRUMENT_AUTO_ATOMIC,
	 "atomic_rmw=atomic atomic_cas atomic_store buffer_atomic_rmw=atomic "
	 "buffer_atomic_cas=atomic_cas"},
	{INSTRUMENT_AUTO_LOADS | INSTRUMENT_AUTO_ATOMIC, "atomic_load"},
	{INSTRUMENT_AUTO_REDUCE, "reduce histogram"},
	{INSTRUMENT_AUTO_SCAN, "scan"},
	{INSTRUMENT_AUTO_CONVERT, "convert_layout=convert gather"},
	{INSTRUMENT_AUTO_CALL, "call"},
	{INSTRUMENT_AUTO_MATH, "=math"}, /* a run of operations: find_operations.c */
	{INSTRUMENT_AUTO_ASM, "elementwise_inline_asm=asm extern_elementwise=extern"},
	{INSTRUMENT_AUTO_LOCAL,
	 "local_alloc local_load local_load_packed_transposed=local_load local_store "
	 "async_shared_store=local_store local_gather local_scatter fence "
	 "fence_async_shared=fence"},
	{INSTRUMENT_AUTO_LOCAL | INSTRUMENT_AUTO_ATOMIC, "local_atomic_scatter_rmw=local_atomic"},
	{INSTRUMENT_AUTO_TMEM, "tmem_alloc tmem_load tmem_store tmem_copy"},
	{INSTRUMENT_AUTO_TMEM | INSTRUMENT_AUTO_WAITS, "tmem_wait"},
	{INSTRUMENT_AUTO_WAITS, "async_wait warp_group_dot_wait=dot_wait wait_barrier "
				"async_tma_store_wait=store_wait async_tdm_wait=tdm_wait "
				"async_tdm_intrinsic_wait=tdm_wait barrier cluster_barrier "
				"cluster_barrier_wait=cluster_barrier cluster_wait atomic_poll "
				"grid_dependency_wait"},
};

/* Takes the next of the names. */
static struct slice take_operation(struct slice *names, struct slice *word)
{
	*word = slice_take_until(names, ' ');
	struct slice name = slice_take_until(word, '=');
	if (!word->length)
		*word = name;
	return name;
}

uint32_t operations_lookup(struct slice op, struct slice *word)
{
	static const char *const dialects[] = {"tt.", "ttg.", "ttng.", "amdg.", "amdgpu.", "gpu."};

	for (size_t i = 0; i < ARRAY_LENGTH(dialects); i++) {
		struct slice name = op;

		if (!slice_take(&name, dialects[i]))
			continue;
		for (size_t k = 0; k < ARRAY_LENGTH(operations); k++) {
			struct slice names = slice_of(operations[k].names);

			if (!memmem(names.at, names.length, name.at, name.length)) /* mostly */
				continue;
			while (names.length)
				if (slices_equal(take_operation(&names, word), name))
					return operations[k].kinds;
		}
	}
	return 0;
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
	return is_found && !operations_kind(op) &&
	       !slice_is_any(name, "decomposed_dot_scaled_source async_copy_mbarrier_arrive "
				   "clc_load_result bypass_lds_load");
}

uint32_t operations_kind(struct slice op)
{
	struct slice word;

	return operations_lookup(op, &word);
}

uint32_t operations_kinds_of_scope(struct slice word)
{
	uint32_t kinds = 0;

	for (size_t i = 0; i < ARRAY_LENGTH(operations); i++) {
		struct slice names = slice_of(operations[i].names);
		struct slice other;

		while (names.length) {
			take_operation(&names, &other);
			kinds |= slices_equal(word, other) ? operations[i].kinds : 0;
		}
	}
	return kinds;
}

bool operations_is_work(const struct mlir_line *line)
{
	static const char views[] =
		"arith.constant cf.br cf.cond_br scf.condition tt.broadcast tt.expand_dims "
		"tt.get_num_programs tt.get_program_id tt.make_range tt.reshape tt.splat tt.trans "
		"tt.unsplat ttg.local_dealloc ttg.warp_specialize ttng.init_barrier "
		"ttng.inval_barrier ttng.reinterpret_tensor_descriptor";
	struct slice op = line->op;

	if (!op.length || slice_is_any(op, views) || slice_ends(op, "return") ||
	    slice_ends(op, "yield") || slice_find(op, ".memdesc_") ||
	    slice_find(op, "rocdl.") == op.at)
		return false;
	if (slice_ends(op, "_alloc")) /* only an allocation with an initial value */
		return slice_find(line->rest, "(tensor<") != NULL;
	if (slice_take(&op, "arith.") || slice_take(&op, "math."))
		return slice_find(line->rest, "tensor<") != NULL;
	return true;
}
