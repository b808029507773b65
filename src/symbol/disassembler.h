/*
 * The disassemblers nvdisasm, of NVIDIA's code, and llvm-objdump, of AMD's: where they are, and
 * running them.
 *
 * nvdisasm is searched for in this order:
 *
 * 1. $PROTON_NVDISASM_PATH, a file or a directory; nothing else is tried
 * 2. the directories of $PATH
 * 3. $CUDA_HOME/bin
 * 4. /usr/local/cuda/bin, then /usr/local/cuda-N.N/bin, the newest first
 * 5. Triton's wheel in $VIRTUAL_ENV, and in the Python environment of the running program: the
 *    directories above it, which also has the commands of an installed package
 *
 * llvm-objdump: ROCm's first, because an older LLVM does not know newer GPUs:
 *
 * 1. $PROTON_LLVM_OBJDUMP_PATH, a file or a directory; nothing else is tried
 * 2. $ROCM_PATH/llvm/bin
 * 3. /opt/rocm/llvm/bin, then /opt/rocm-N.N/llvm/bin, the newest first
 * 4. ROCm's wheel in the same environments
 * 5. the directories of $PATH, then /usr/lib/llvm-N/bin, the newest first
 */
#ifndef SYMBOL_DISASSEMBLER_H
#define SYMBOL_DISASSEMBLER_H

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

#endif
