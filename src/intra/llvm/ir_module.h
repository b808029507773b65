/* LLVM IR modules: the text of a kernel with its instrumented callees. */
#ifndef INTRA_LLVM_IR_MODULE_H
#define INTRA_LLVM_IR_MODULE_H

#include <stddef.h>

#include "intra/llvm/ir_function.h"
#include "intra/llvm/noinline_callees.h"

/*
 * Parses `text`, which `kernel` refers to. If no marker can be parsed, only unknown_markers and
 * unknown_line are set. E_UNSUPPORTED with an error message if the kernel cannot be
 * instrumented, E_NOMEM.
 */
int ir_module_read(const char *text, size_t length, struct ir_function *kernel,
		   struct proton_error *err);
/*
 * Checks what the pass assumes about Triton's kernels: which parameter is the profile's buffer (0
 * parameters: unknown), and where the kernel's shared memory ends. If a later Triton changes one of
 * them, records would overwrite the memory of the kernel. E_UNSUPPORTED if one does not hold.
 */
int ir_module_check(const struct ir_function *kernel, uint32_t parameter_count,
		    uint32_t shared_bytes, struct proton_error *err);
void ir_module_fini(struct ir_function *kernel);

#endif
