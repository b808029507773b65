/*
 * Loaded code objects, for PC sampling: the function of a sampled instruction. The machine code is
 * copied when it is loaded (record/store/code_objects.h), because samples may arrive after it was
 * unloaded, and parsed at its first sample.
 */
#ifndef BACKEND_AMD_SDK_CODE_OBJECTS_H
#define BACKEND_AMD_SDK_CODE_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/amd/sdk_abi.h"

/* A code object was loaded. On the loading thread. */
void sdk_code_objects_add(const struct sdk_code_object *loaded);
/*
 * The function (record/store/gpu_functions.h) of an instruction, and the offset in it. `offset` is
 * relative to the place where the code object was loaded. False if it is unknown.
 */
bool sdk_code_objects_find(uint64_t id, uint64_t offset, uint32_t *function_out,
			   uint32_t *offset_out);
/* In the child of a fork: a thread of the parent may have held the lock. */
void sdk_code_objects_forked(void);

#endif
