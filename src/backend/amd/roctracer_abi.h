/*
 * ABI of roctracer 4.1, the library of ROCm 5 and 6 (AMD has frozen and deprecated it), and of the
 * HIP calls that it reports: the part that this backend uses, declared without an SDK.
 * tests/python/test_roctracer_abi.py compares it with the headers in Triton's wheels.
 *
 * The numbers of HIP calls are not here: they are found by name at run time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum roctracer_result {
	ROCTRACER_OK = 0,
	ROCTRACER_E_ERROR = -1,
	ROCTRACER_E_INVALID_DOMAIN = -2,
	ROCTRACER_E_INVALID_ARGUMENT = -3,
	ROCTRACER_E_NO_POOL = -4,
	ROCTRACER_E_POOL_EXISTS = -5,
	ROCTRACER_E_OUT_OF_MEMORY = -6,
	ROCTRACER_E_NOT_IMPLEMENTED = -8,
};

#define ROCTRACER_MAJOR 4
#define ROCTRACER_MINOR 1

enum roctracer_domain {
	ROCTRACER_DOMAIN_HIP_OPS = 2,
	ROCTRACER_DOMAIN_HIP_API = 3,
	ROCTRACER_DOMAIN_EXTERNAL = 5,
	ROCTRACER_DOMAIN_ROCTX = 6,
};

enum roctracer_phase {
	ROCTRACER_ENTER = 0,
	ROCTRACER_EXIT = 1,
};

/* Operations of ROCTRACER_DOMAIN_HIP_OPS. */
enum roctracer_hip_op {
	ROCTRACER_OP_DISPATCH = 0,
	ROCTRACER_OP_COPY = 1,
	ROCTRACER_OP_BARRIER = 2,
};

/* Kinds of commands in records of these. A task is a part of a graph, with a record per kernel. */
enum roctracer_command {
	ROCTRACER_COMMAND_KERNEL = 0x11f0,
	ROCTRACER_COMMAND_TASK = 0x11f1,
	ROCTRACER_COMMAND_DTOH = 0x11f3,
	ROCTRACER_COMMAND_HTOD = 0x11f4,
	ROCTRACER_COMMAND_DTOD = 0x11f5,
	ROCTRACER_COMMAND_DTOH_RECT = 0x1201,
	ROCTRACER_COMMAND_HTOD_RECT = 0x1202,
	ROCTRACER_COMMAND_DTOD_RECT = 0x1203,
	ROCTRACER_COMMAND_FILL = 0x1207,
};

/* Calls of ROCTRACER_DOMAIN_ROCTX. */
enum roctracer_roctx_call {
	ROCTRACER_ROCTX_PUSH = 1,
	ROCTRACER_ROCTX_POP = 2,
};

/* An activity record of ROCTRACER_DOMAIN_HIP_OPS. */
struct roctracer_record {
	uint32_t domain;
	uint32_t kind;
	uint32_t op;
	uint64_t correlation_id;
	uint64_t begin_ns;
	uint64_t end_ns;
	int device_id; /* the KFD's number of the node, which is not HIP's of the device */
	uint64_t queue_id;
	union {
		size_t bytes;            /* size of a copy or fill */
		const char *kernel_name; /* kernels only; valid in the buffer callback */
	};
};

typedef void (*roctracer_callback_fn)(uint32_t domain, uint32_t call, const void *data, void *user);
/* On a thread of the library, which holds its locks: no call of it that waits is allowed there. */
typedef void (*roctracer_buffer_fn)(const char *begin, const char *end, void *user);
typedef void (*roctracer_allocate_fn)(char **buffer, size_t bytes, void *user);

struct roctracer_properties {
	uint32_t mode;
	size_t buffer_bytes; /* a pool has two buffers */
	roctracer_allocate_fn allocate;
	void *allocate_user;
	roctracer_buffer_fn on_buffer;
	void *on_buffer_user;
};

/*
 * Data of a callback of ROCTRACER_DOMAIN_HIP_API: the call's arguments, and after each pointer the
 * value that it points to. The result of the call is not in it.
 */
struct roctracer_hip_call {
	uint64_t correlation_id;
	uint32_t phase;
	uint64_t arguments[8]; /* at least */
};

/* Data of a callback of ROCTRACER_DOMAIN_ROCTX. */
struct roctracer_roctx_data {
	const char *message;
	uint64_t id;
};
