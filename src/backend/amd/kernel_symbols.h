/*
 * Kernels of loaded code objects, by the id that dispatches carry. They are stored from the
 * registration on, whether or not a session runs: a kernel is loaded once, and launched later.
 */
#ifndef BACKEND_AMD_KERNEL_SYMBOLS_H
#define BACKEND_AMD_KERNEL_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/sdk_abi.h"

struct kernel_symbol {
	uint64_t code_object;
	uint32_t frame; /* of its name, without ".kd" */
	uint32_t group_bytes;
	uint32_t registers; /* vector registers of a work-item */
	bool is_fill;       /* a memset that the runtime does with a kernel */
	bool is_copy;       /* a copy that it does so */
};

/* The frame of a name in a code object, maybe with the suffix ".kd"; NULL: "(unnamed kernel)". */
uint32_t kernel_symbols_frame(const char *name);
/* A kernel was loaded. On the loading thread. */
void kernel_symbols_add(const struct sdk_kernel_symbol *symbol);
/* False if the id is unknown. On the thread of the records. */
bool kernel_symbols_find(uint64_t kernel_id, struct kernel_symbol *out);
/* In the child of a fork: a thread of the parent may have held the lock. */
void kernel_symbols_forked(void);

#endif
