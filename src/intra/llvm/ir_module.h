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
void ir_module_fini(struct ir_function *kernel);

#endif
