/*
 * The disassemblers nvdisasm, of NVIDIA's code, and llvm-objdump, of AMD's: where they are, in the
 * order of docs/guide/environment.md, and running them.
 */
#pragma once

#include "base/buf.h"
#include "symbol/code_object.h"

/* The path of the program for a machine's code, malloc'd. PROTON_E_NOLIB if there is none. */
int disassembler_find(enum code_object_machine machine, char **path_out, struct proton_error *err);

struct disassembler_limits {
	int ms;
	uint64_t memory_bytes;
};

/*
 * Appends the program's output for a code object. There is no shell, and no file: the code object
 * is the program's standard input. A program that takes longer is killed with its children; it does
 * not get more memory, and cannot write files.
 */
int disassembler_run(enum code_object_machine machine, const char *program, const void *object,
		     size_t length, struct disassembler_limits limits, struct out *out,
		     struct proton_error *err);
