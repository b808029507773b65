/*
 * Controls of the fake libroctracer64. It behaves as the library of ROCm 6 does, even where that
 * surprises:
 *
 * - At its first call for HIP it looks for libamdhip64 in the process. Without it, calls that
 *   enable something succeed and do nothing, then and later. The same holds for libroctx64.
 * - A pool has two buffers and a thread that calls back for each, with a lock held: records come
 *   from the start of a buffer, kernel names from its end, and no other name is valid.
 * - A child of fork() has no such thread: a flush or a full buffer would wait forever. Here it
 *   ends the child with SIGABRT and a line, which a test can see.
 *
 * roctracer.c has the callbacks and launches, roctracer_pool.c the records, roctx.c libroctx64.
 * roctracer_calls.c and amd_graphs.c have the controls of fake_cupti.h that are not about CUPTI.
 *
 * Environment, for tests that run programs: FAKE_ROCTRACER_MAJOR, FAKE_ROCTRACER_MINOR: the
 * version; FAKE_ROCTRACER_LATE_MS: work ends that long after it was asked for.
 */
#pragma once

#include <stdbool.h>

#include "backend/amd/roctracer_abi.h"
#include "fake/fake_cupti.h"
#include "format/rows.h"

/* Work that a HIP call launches. */
struct fake_hip_launch {
	const char *call;         /* such as "hipModuleLaunchKernel" */
	const char *name;         /* the name in the code object */
	const char *const *names; /* one per record, instead of `name` */
	const uint32_t *kinds;    /* the same, instead of `kind` */
	uint32_t records;         /* number of records */
	uint32_t kind;            /* enum roctracer_command; 0: a kernel */
	int node;                 /* the KFD's number of the device */
	uint64_t queue;
	void *stream;
	uint64_t start_ns; /* on fake_now()'s clock */
	uint64_t end_ns;
	size_t bytes;     /* size of a copy or fill */
	bool is_unseen;   /* from a call without callbacks: the records have correlation ID 0 */
	bool is_captured; /* its stream captures: the call adds a node, nothing runs */
	bool has_failed;  /* it launched nothing and set HIP's error */
	bool is_reported_only; /* callbacks alone: no capture begins or ends in HIP */
	struct launch_config config;
	void *graph;       /* executable graph of hipGraphLaunch */
	uint64_t words[4]; /* arguments of a call that makes a graph, as in HIP's structure */
};

/* X(type, name, arguments): fake_NAME() in libroctracer64, in addition to those of fake_cupti.h. */
#define FAKE_ROCTRACER_CONTROLS(X)                                                                 \
	/* A HIP call: callbacks at enter and exit, and its records. Its correlation ID. */        \
	X(uint64_t, hip_call, (const struct fake_hip_launch *launch))                              \
	/* The newest `count` executions that have not been recorded yet never are. */             \
	X(void, lose, (size_t count))                                                              \
	/* True if no callback and no record reached the program because HIP came too late. */     \
	X(bool, is_deaf, (void))                                                                   \
	/* Another tool enables the same calls and operations for itself. */                       \
	X(void, steal, (void))                                                                     \
	/* Bytes in each buffer of the newest pool; 0: there is none. */                           \
	X(size_t, buffer_bytes, (void))                                                            \
	/* The clock of records. */                                                                \
	X(uint64_t, now, (void))                                                                   \
	/* HSA is not initialized: the clock cannot be read. */                                    \
	X(void, stop_clock, (bool is_on))

#define FAKE_DECLARE(type, name, arguments) FAKE_EXPORT type fake_##name arguments;
FAKE_ROCTRACER_CONTROLS(FAKE_DECLARE)
#undef FAKE_DECLARE
