/*
 * Cubin reader: sections and functions of machine code for NVIDIA GPUs, a 64-bit little-endian ELF
 * file. Input is untrusted: every offset is checked, and memory is proportional to the file.
 */
#ifndef SYMBOL_CUBIN_H
#define SYMBOL_CUBIN_H

#include "base/err.h"
#include "symbol/reader.h"

#define CUBIN_NONE UINT32_MAX

struct cubin_section {
	const char *name;
	struct span content; /* empty if the file has no bytes for it */
	uint64_t bytes;      /* size in memory */
	uint32_t type;       /* SHT_* of <elf.h> */
	uint32_t link, info;
};

/* A kernel, or a function that kernels call. */
struct cubin_function {
	const char *name;    /* mangled */
	uint32_t symbol;     /* index in the symbol table */
	uint32_t section;    /* of its code */
	uint64_t offset;     /* of its code in the section */
	uint64_t code_bytes; /* with the functions that the section has after it */
	uint32_t registers;  /* per thread; 0: unknown */
	uint32_t stack_bytes;
	uint64_t shared_bytes; /* static shared memory of the section */
};

struct cubin {
	struct span file;
	struct span names; /* of sections */
	uint64_t section_table;
	uint32_t section_count;
	uint32_t function_count;
	struct cubin_function *functions; /* by section and offset */
	uint32_t *by_name;                /* indexes of `functions` */
	uint32_t registers;               /* maximum of all functions; 0: unknown */
	uint64_t stack_bytes;             /* sum over all functions */
};

/*
 * Reads the tables of a cubin. `bytes` must stay valid until cubin_close(). PROTON_E_INVALID if it
 * is not a cubin.
 */
int cubin_open(struct cubin *cubin, const void *bytes, size_t length, struct proton_error *err);
void cubin_close(struct cubin *cubin);

/* False if there is no such section, or its content is outside the file. */
bool cubin_section_get(const struct cubin *cubin, uint32_t index,
		       struct cubin_section *section_out);
/* The first section of this name; CUBIN_NONE: none. */
uint32_t cubin_section_find(const struct cubin *cubin, const char *name);
/* Its content; empty if there is none. */
struct span cubin_section_content(const struct cubin *cubin, const char *name);

/* Index of the function with this mangled name; CUBIN_NONE: none. */
uint32_t cubin_function_find(const struct cubin *cubin, const char *name);
/* Index of the last function that starts at or before this offset; CUBIN_NONE: none. */
uint32_t cubin_function_at(const struct cubin *cubin, uint32_t section, uint64_t offset);

#endif
