/* Texts about a GPU backend in the profile: numbers, and what recording has cost. */
#ifndef BACKEND_GPU_GPU_DESCRIBE_H
#define BACKEND_GPU_GPU_DESCRIBE_H

#include <stdint.h>

#include "record/backend.h"

void gpu_describe_number(backend_add_fn add, void *user, const char *key, uint64_t value);
/* The time that callbacks and records have cost since the start. */
void gpu_describe_overhead(backend_add_fn add, void *user);

#endif
