/*
 * Cubin reader: sections and functions of machine code for NVIDIA GPUs, a 64-bit little-endian ELF
 * file. Input is untrusted: every offset is checked, and memory is proportional to the file.
 */
#ifndef SYMBOL_CODE_OBJECT_H
#define SYMBOL_CODE_OBJECT_H

#include "base/err.h"
#include "symbol/reader.h"

#define CODE_OBJECT_NONE UINT32_MAX

struct code_object_section {
	const char *name;
	struct span content; /* empty if the file has no bytes for it */
	uint64_t bytes;      /* size in memory */
	uint32_t type;       /* SHT_* of <elf.h> */
	uint32_t link, info;
};

/* A kernel, or a function that kernels call. */
struct code_object_function {
	const char *name;    /* mangled */
	uint32_t symbol;     /* index in the symbol table */
	uint32_t section;    /* of its code */
	uint64_t offset;     /* of its code in the section */
	uint64_t code_bytes; /* with the functions that the section has after it */
	uint32_t registers;  /* per thread; 0: unknown */
	uint32_t stack_bytes;
	uint64_t shared_bytes; /* static shared memory of the section */
};

struct code_object {
	struct span file;
	struct span names; /* of sections */
	uint64_t section_table;
	uint32_t section_count;
	uint32_t function_count;
	struct code_object_function *functions; /* by section and offset */
	uint32_t *by_name;                      /* indexes of `functions` */
	uint32_t registers;                     /* maximum of all functions; 0: unknown */
	uint64_t stack_bytes;                   /* sum over all functions */
};

/*
 * Reads the tables of a cubin. `bytes` must stay valid until code_object_close(). PROTON_E_INVALID
 * if it is not a cubin.
 */
int code_object_open(struct code_object *object, const void *bytes, size_t length,
		     struct proton_error *err);
void code_object_close(struct code_object *object);

/* False if there is no such section, or its content is outside the file. */
bool code_object_section_get(const struct code_object *object, uint32_t index,
			     struct code_object_section *section_out);
/* The first section of this name; CODE_OBJECT_NONE: none. */
uint32_t code_object_section_find(const struct code_object *object, const char *name);
/* Its content; empty if there is none. */
struct span code_object_section_content(const struct code_object *object, const char *name);

/* Index of the function with this mangled name; CODE_OBJECT_NONE: none. */
uint32_t code_object_function_find(const struct code_object *object, const char *name);
/* Index of the last function that starts at or before this offset; CODE_OBJECT_NONE: none. */
uint32_t code_object_function_at(const struct code_object *object, uint32_t section,
				 uint64_t offset);

#endif
