/*
 * Kinds and operations of rocprofiler-sdk, found by name at run time: their numbers differ between
 * versions, and a library has kinds that its headers of an earlier version have not.
 */
#ifndef BACKEND_AMD_SDK_KINDS_H
#define BACKEND_AMD_SDK_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SDK_KIND_NONE -1
#define SDK_OPERATION_MAX 4096u

struct sdk_kinds {
	int hip;         /* callbacks: HIP's runtime API */
	int marker;      /* ROCTX */
	int code_object; /* loaded code and its kernels */
	int graph;       /* launches of graphs; later than 1.2 */
	int dispatch;    /* buffer */
	int copy;        /* buffer */
	int request_dispatch;
	int request_copy;
};

/* Fills in the numbers; SDK_KIND_NONE for what the library does not have. */
extern struct sdk_kinds sdk_kinds;

enum sdk_call_kind {
	SDK_CALL_OTHER,
	SDK_CALL_LAUNCH,
	SDK_CALL_GRAPH_LAUNCH,
	SDK_CALL_GRAPH, /* makes or destroys a graph, or captures one */
	SDK_CALL_MEMORY,
};

/* A call of HIP that the backend watches. Offsets in its arguments, -1 for none. */
struct sdk_call_info {
	uint8_t kind;   /* enum sdk_call_kind */
	int8_t pointer; /* the stream is in a struct that this argument points to */
	int8_t stream;
	int8_t bytes; /* size of copied or set memory, in units of: */
	uint8_t unit;
	uint8_t graph; /* enum hip_graph_call */
};

/* By operation. Read-only after sdk_kinds_find(). */
extern struct sdk_call_info sdk_calls[SDK_OPERATION_MAX];

/*
 * Asks the library for the numbers. E_VERSION if it lacks a kind that the backend needs. Called
 * once.
 */
int sdk_kinds_find(struct proton_error *err);
/* Lists the operations of calls of these kinds, at most `capacity`. */
size_t sdk_kinds_calls(bool of_memory, int32_t *operations, size_t capacity);
/* The operation with a name that ends so; -1: the library does not have it. */
int32_t sdk_kinds_operation(int kind, const char *name);

#endif
