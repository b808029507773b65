/*
 * Reader of machine code for GPUs: sections and functions of cubins (NVIDIA) and of code objects
 * (AMD), which are 64-bit little-endian ELF files. Input is untrusted: every offset is checked, and
 * memory is proportional to the file.
 *
 * A cubin has a section of code per kernel, and no addresses. An AMD code object is linked: its
 * functions share a section and have virtual addresses, which start at 0.
 */
#pragma once

#include "base/err.h"
#include "symbol/reader.h"

#define CODE_OBJECT_NONE UINT32_MAX

enum code_object_machine {
	MACHINE_NVIDIA,
	MACHINE_AMD,
};

struct code_object_section {
	const char *name;
	struct span content; /* empty if the file has no bytes for it */
	uint64_t address;    /* virtual; 0 in cubins */
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
	uint32_t registers;  /* per thread; 0: unknown, as of AMD code */
	uint32_t stack_bytes;
	uint64_t shared_bytes; /* static shared memory of the section */
};

/* A section of code with virtual addresses. */
struct code_object_range {
	uint64_t begin, end;
	uint32_t section;
};

struct code_object {
	enum code_object_machine machine;
	struct span file;
	struct span names; /* of sections */
	uint64_t section_table;
	uint32_t section_count;
	uint32_t function_count;
	struct code_object_function *functions; /* by section and offset */
	uint32_t *by_name;                      /* indexes of `functions` */
	struct code_object_range *code;         /* AMD: by address */
	uint32_t code_count;
	uint32_t registers;   /* maximum of all functions; 0: unknown */
	uint64_t stack_bytes; /* sum over all functions */
};

/*
 * Reads the tables of a code object. `bytes` must stay valid until code_object_close().
 * PROTON_E_INVALID if it is neither a cubin nor an AMD code object.
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
/* The section of code at a virtual address, and the offset in it. False: there is none. */
bool code_object_find_code(const struct code_object *object, uint64_t address,
			   uint32_t *section_out, uint64_t *offset_out);
