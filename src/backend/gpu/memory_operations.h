/*
 * Names of memory copies and memsets, which records lack; torch.profiler's names, "Memcpy HtoD
 * (Pinned -> Device)" and "Memset (Device)", which users know.
 */
#ifndef BACKEND_GPU_MEMORY_OPERATIONS_H
#define BACKEND_GPU_MEMORY_OPERATIONS_H

#include <stdint.h>

/* The numbers are CUPTI's. */
enum copy_kind {
	COPY_UNKNOWN,
	COPY_HTOD,
	COPY_DTOH,
	COPY_HTOA,
	COPY_ATOH,
	COPY_ATOA,
	COPY_ATOD,
	COPY_DTOA,
	COPY_DTOD,
	COPY_HTOH,
	COPY_PTOP,
	COPY_KINDS,
};

enum memory_kind {
	MEMORY_UNKNOWN,
	MEMORY_PAGEABLE,
	MEMORY_PINNED,
	MEMORY_DEVICE,
	MEMORY_ARRAY,
	MEMORY_MANAGED,
	MEMORY_DEVICE_STATIC,
	MEMORY_MANAGED_STATIC,
	MEMORY_KINDS,
};

/* Frames; unknown numbers are named so. Only on the thread of the records. */
uint32_t memory_operations_copy_frame(uint32_t copy, uint32_t from, uint32_t to);
uint32_t memory_operations_set_frame(uint32_t memory);

#endif
