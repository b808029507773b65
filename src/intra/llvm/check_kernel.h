/*
 * Checks of what the pass assumes about Triton's kernels: which parameter is the profile's buffer,
 * and where the kernel's shared memory ends. If a later Triton changes one of them, records would
 * overwrite the memory of the kernel.
 */
#ifndef INTRA_LLVM_CHECK_KERNEL_H
#define INTRA_LLVM_CHECK_KERNEL_H

#include "intra/llvm/llvm_pass.h"

/* E_UNSUPPORTED if an assumption does not hold. */
int check_kernel(const struct ir_function *kernel, const struct instrument_options *options,
		 struct proton_error *err);

#endif
