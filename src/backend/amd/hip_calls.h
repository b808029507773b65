/* Shared by both backends of AMD: arguments of HIP's calls (hip_calls.def), names, a message. */
#pragma once

#include "backend/gpu/records.h"
#include "base/message.h"

#define NO_STREAM UINT16_MAX

enum hip_arguments {
	ARGUMENTS_NONE, /* not read */
	ARGUMENTS_KERNEL,
	ARGUMENTS_MODULE,
	ARGUMENTS_EXT, /* the grid is in work-items */
	ARGUMENTS_POINTER,
	ARGUMENTS_GRAPH,
};

/*
 * Places in roctracer's arguments of a launch, or in the struct to which their first word points,
 * in bytes; tests/python/test_roctracer_abi.py compares them. The block's sizes follow the grid's.
 */
static const struct hip_layout {
	uint8_t grid;
	uint8_t shared_bytes; /* 0: there are no sizes */
	uint8_t stream;
	int8_t sdk_stream; /* in rocprofiler-sdk's, which has no pointees; -1: none */
	bool is_pointer;
} hip_layouts[] = {
	[ARGUMENTS_NONE] = {0, 0, 0, -1, false},     [ARGUMENTS_KERNEL] = {8, 48, 56, 48, false},
	[ARGUMENTS_MODULE] = {8, 32, 40, 40, false}, [ARGUMENTS_EXT] = {8, 32, 40, 40, false},
	[ARGUMENTS_POINTER] = {0, 24, 32, 32, true}, [ARGUMENTS_GRAPH] = {0, 0, 8, 8, false},
};

/* The frame of a name in a code object, maybe with the suffix ".kd"; NULL: "(unnamed kernel)". */
uint32_t kernel_symbols_frame(const char *name);

/* The frame of a copy; AMD does not tell the kind of host memory. */
static inline uint32_t hip_copy_frame(enum copy_kind copy)
{
	bool is_from_device = copy == COPY_DTOH || copy == COPY_DTOD;
	bool is_to_device = copy == COPY_HTOD || copy == COPY_DTOD;

	return memory_operations_copy_frame(copy, is_from_device ? MEMORY_DEVICE : MEMORY_UNKNOWN,
					    is_to_device ? MEMORY_DEVICE : MEMORY_UNKNOWN);
}

/* Prints once per run that the backends have not run on hardware, when one has started. */
#define EXPERIMENTAL_REPORT(backend)                                                               \
	message_once("backend \"" backend "\" is experimental: it has not yet run on an AMD GPU; " \
		     "run tests/gpu and send the result (docs/guide/amd.md)")
