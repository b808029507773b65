/*
 * Thread-local variables of PyTorch, read in place.
 *
 * A launch needs three of them, and PyTorch exports a function for each. In a loop, a call costs
 * 3 ns. Between two launches of a program, the code of the function, the tables that it goes
 * through, and their entries in the TLB leave the caches; then a call costs hundreds.
 *
 * The variables are in the thread-local blocks of two libraries. Their positions are found by
 * value: only one word of the block may be equal to the result of the function, through several
 * changes. The sequence number and the enabling of gradients are changed for this purpose. The node
 * that a thread evaluates is compared at launches, until it is found.
 */
#include "torch/torch_parts.h"

#include <link.h>

#define CHANGES 4u    /* that a variable has to follow */
#define CANDIDATES 8u /* positions at which the node may be */
#define SEARCHES 64u  /* of whole blocks */
#define BLOCK_MAX_BYTES (UINT64_C(1) << 20)

/* The dynamic linker's function that finds a thread-local variable, and its argument. */
struct position {
	unsigned long module; /* 0: unknown */
	unsigned long offset;
};
extern void *__tls_get_addr(struct position *position);

/* The thread-local memory of the library that contains an address. */
struct block {
	uintptr_t code;
	unsigned long module;
	size_t bytes;
	char *start; /* on the calling thread */
};

static struct position number, grad;
static uint8_t grad_bit;
static size_t block_bytes; /* the block has the number and the node */

static struct {
	_Atomic bool is_busy;
	_Atomic uint64_t found; /* the position plus 1; 0: unknown */
	_Atomic uint32_t count; /* of candidates */
	uint64_t candidates[CANDIDATES];
	uint32_t searches;
	uint32_t changes;
	bool has_seen_none;
	const void *last;
} search;

static void *address_of(struct position position)
{
	return __tls_get_addr(&position);
}

/* 1: found. */
static int match_block(struct dl_phdr_info *object, size_t size, void *query)
{
	struct block *block = query;
	bool contains_code = false;
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + part->p_vaddr;
		if (part->p_type == PT_LOAD && block->code - start < part->p_memsz)
			contains_code = true;
		if (part->p_type == PT_TLS)
			block->bytes = part->p_memsz;
	}
	if (!contains_code)
		return 0;
	block->module = object->dlpi_tls_modid;
	block->start = object->dlpi_tls_data;
	return 1;
}

/* False: unusual, and nothing is read. */
static bool find_block(uintptr_t code, struct block *block)
{
	*block = (struct block){.code = code};
	return dl_iterate_phdr(match_block, block) == 1 && block->module && block->start &&
	       block->bytes <= BLOCK_MAX_BYTES && (uintptr_t)block->start % 8 == 0 &&
	       address_of((struct position){block->module, 0}) == (void *)block->start;
}

/* ------------------------------------------------------------------ number, gradients */

/* Makes a node. */
static bool raise_number(PyObject *tensor)
{
	PyObject *result = PyNumber_Add(tensor, tensor);
	Py_XDECREF(result);
	if (!result)
		PyErr_Clear();
	return result != NULL;
}

static void learn_number(const struct torch_getters *getters, PyObject *tensor)
{
	struct block block;
	if (!find_block((uintptr_t)getters->number, &block))
		return;
	size_t count = block.bytes / sizeof(uint64_t);
	const uint64_t *words = (const uint64_t *)(const void *)block.start;
	bool *differs = calloc(count, sizeof(*differs));
	bool is_changing = differs != NULL;
	for (uint32_t i = 0; i < CHANGES && is_changing; i++) {
		uint64_t before = getters->number();
		is_changing = raise_number(tensor) && getters->number() != before;
		for (size_t word = 0; word < count; word++)
			differs[word] |= words[word] != getters->number();
	}
	size_t same = 0, at = 0;
	for (size_t word = 0; word < count && is_changing; word++) {
		same += !differs[word];
		at = differs[word] ? at : word;
	}
	free(differs);
	if (same != 1)
		return;
	number = (struct position){block.module, at * sizeof(uint64_t)};
	block_bytes = block.bytes;
}

static void learn_grad(const struct torch_getters *getters)
{
	struct block block;
	if (!getters->set_grad || !find_block((uintptr_t)getters->set_grad, &block))
		return;
	uint8_t *same = malloc(block.bytes);
	if (!same)
		return;
	bool was_enabled = getters->has_grad();
	memset(same, 0xff, block.bytes);
	for (uint32_t i = 0; i < CHANGES; i++) {
		bool is_enabled = i % 2;
		getters->set_grad(is_enabled);
		for (size_t at = 0; at < block.bytes; at++)
			same[at] &= (uint8_t)(is_enabled ? block.start[at] : ~block.start[at]);
	}
	getters->set_grad(was_enabled);
	int bits = 0;
	for (size_t at = 0; at < block.bytes; at++) {
		bits += __builtin_popcount(same[at]);
		if (!same[at])
			continue;
		grad_bit = same[at];
		grad.offset = at;
	}
	grad.module = bits == 1 ? block.module : 0;
	free(same);
}

void torch_locals_learn(const struct torch_getters *getters, PyObject *tensor)
{
	learn_number(getters, tensor);
	learn_grad(getters);
}

void torch_locals_find(struct torch_locals *out)
{
	/* acquire: pairs with torch_locals_see_node() */
	uint64_t found = atomic_load_explicit(&search.found, memory_order_acquire);
	*out = (struct torch_locals){0};
	if (number.module)
		out->number = address_of(number);
	if (found)
		out->node = address_of((struct position){number.module, found - 1});
	if (grad.module) {
		out->grad = address_of(grad);
		out->grad_bit = grad_bit;
	}
}

/* ------------------------------------------------------------------ the node */

static void search_begin(const char *start, const void *node)
{
	uint32_t count = 0;
	search.changes = 0;
	search.has_seen_none = false;
	if (search.searches == SEARCHES)
		return;
	search.searches++;
	for (uint64_t at = 0; at + sizeof(node) <= block_bytes; at += sizeof(node)) {
		if (memcmp(start + at, &node, sizeof(node)) != 0)
			continue;
		if (count == CANDIDATES)
			return;
		search.candidates[count++] = at;
	}
	atomic_store_explicit(&search.count, count, memory_order_relaxed);
}

static void search_go_on(const char *start, const void *node)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < search.count; i++) {
		uint64_t at = search.candidates[i];
		if (memcmp(start + at, &node, sizeof(node)) == 0)
			search.candidates[count++] = at;
	}
	search.changes += node && node != search.last;
	search.has_seen_none |= !node;
	atomic_store_explicit(&search.count, count, memory_order_relaxed);
	if (count == 1 && search.changes >= CHANGES && search.has_seen_none)
		/* release: pairs with torch_locals_find() */
		atomic_store_explicit(&search.found, search.candidates[0] + 1,
				      memory_order_release);
}

bool torch_locals_see_node(const void *node)
{
	if (atomic_load_explicit(&search.found, memory_order_relaxed))
		return true;
	bool has_candidates = atomic_load_explicit(&search.count, memory_order_relaxed);
	if (!number.module || (!node && !has_candidates) ||
	    atomic_exchange_explicit(&search.is_busy, true, memory_order_acquire))
		return false;
	const char *start = address_of((struct position){number.module, 0});
	if (search.count)
		search_go_on(start, node);
	else if (node)
		search_begin(start, node);
	search.last = node ? node : search.last;
	atomic_store_explicit(&search.is_busy, false, memory_order_release);
	return atomic_load_explicit(&search.found, memory_order_relaxed);
}
