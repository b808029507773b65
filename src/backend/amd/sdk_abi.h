/*
 * The part of rocprofiler-sdk's ABI that this backend uses, version 1.0 and later: what 1.0.0 and
 * 1.2.1 have in common. 0.x had other offsets (sdk_register.c refuses it).
 *
 * Every struct of the library begins with its size, and newer versions append fields. So a record
 * is read only if it has the fields that are read. Handles are structs of one number, by value.
 * Kinds and operations have no numbers here: they are found by name (sdk_api.c).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum sdk_status {
	SDK_OK = 0,
	SDK_E_BUFFER_BUSY = 14,
	SDK_E_CONFIGURATION_LOCKED = 16,
	SDK_E_FINALIZED = 21,
	SDK_E_INCOMPATIBLE_KERNEL = 28,
	SDK_E_NOT_AVAILABLE = 37,
	SDK_E_AGENT_ARCH_NOT_SUPPORTED = 39,
	SDK_E_PERMISSION_DENIED = 40,
};

enum sdk_phase {
	SDK_PHASE_NONE = 0,
	SDK_PHASE_ENTER = 1,
	SDK_PHASE_LOAD = SDK_PHASE_ENTER,
	SDK_PHASE_EXIT = 2,
};

#define SDK_CATEGORY_TRACING 1u
#define SDK_CATEGORY_PC_SAMPLING 2u
#define SDK_POLICY_LOSSLESS 2
#define SDK_AGENT_VERSION_0 1
#define SDK_AGENT_GPU 2

struct sdk_context {
	uint64_t handle;
};

struct sdk_buffer {
	uint64_t handle;
};

struct sdk_thread {
	uint64_t handle;
};

struct sdk_dim3 {
	uint32_t x;
	uint32_t y;
	uint32_t z;
};

/* ------------------------------------------------------------------ registration */

struct sdk_client {
	size_t size;
	const char *name;
	uint32_t handle;
};

typedef void (*sdk_finalize_client_fn)(struct sdk_client client);

struct sdk_configure_result {
	size_t size;
	int (*initialize)(sdk_finalize_client_fn finalize, void *data);
	void (*finalize)(void *data);
	void *data;
};

typedef struct sdk_configure_result *(*sdk_configure_fn)(uint32_t version, const char *version_text,
							 uint32_t priority,
							 struct sdk_client *client);

/* ------------------------------------------------------------------ callbacks */

struct sdk_callback_record {
	struct sdk_context context;
	uint64_t thread_id;
	uint64_t internal; /* correlation ID of the call */
	uint64_t external;
	uint64_t ancestor; /* correlation ID of the call that made this call */
	int kind;
	int32_t operation;
	int phase;
	void *payload;
};

typedef void (*sdk_callback_fn)(struct sdk_callback_record record, uint64_t *user, void *data);
typedef int (*sdk_request_fn)(uint64_t thread_id, struct sdk_context context, int kind,
			      int32_t operation, uint64_t internal, uint64_t *external, void *data);
typedef int (*sdk_operation_fn)(int kind, int32_t operation, void *data);

/* Payload of a call of HIP or ROCTX; the arguments have the size of the longest call's. */
struct sdk_call {
	uint64_t size;
	uint64_t arguments[];
};

/* The last bytes of the payload of a call of HIP are its result, which is there at its exit. */
#define SDK_RESULT_BYTES 24u

struct sdk_code_object {
	uint64_t size;
	uint64_t id;
	uint64_t agent;
	uint64_t hsa_agent;
	const char *uri;
	uint64_t load_base;
	uint64_t load_size;
	int64_t load_delta;
	int storage;     /* 1: file, 2: memory */
	uint64_t memory; /* address, or descriptor of the file */
	uint64_t memory_bytes;
};

struct sdk_kernel_symbol {
	uint64_t size;
	uint64_t kernel_id;
	uint64_t code_object_id;
	const char *name; /* ends in ".kd" */
	uint8_t other1[16];
	uint32_t group_bytes; /* shared memory */
	uint8_t other2[8];
	uint32_t vector_registers;
	uint32_t accumulation_registers;
};

#define SDK_CODE_OBJECT_LOAD 1
#define SDK_CODE_OBJECT_KERNEL_SYMBOL 2

/* ------------------------------------------------------------------ buffers */

struct sdk_record_header {
	uint32_t category;
	uint32_t kind;
	void *payload;
};

typedef void (*sdk_buffer_fn)(struct sdk_context context, struct sdk_buffer buffer,
			      struct sdk_record_header **headers, size_t count, void *data,
			      uint64_t dropped);

/* The head of each record in a buffer. */
struct sdk_record {
	uint64_t size;
	int kind;
	int operation;
	uint64_t internal; /* correlation ID of the call */
	uint64_t external; /* from sdk_request_fn */
	uint64_t thread_id;
	uint64_t start_ns; /* on the clock of rocprofiler_get_timestamp() */
	uint64_t end_ns;
};

struct sdk_dispatch {
	struct sdk_record head;
	uint64_t info_size;
	uint64_t agent;
	uint64_t queue;
	uint64_t kernel_id;
	uint64_t dispatch_id;
	uint32_t private_bytes;
	uint32_t group_bytes;
	struct sdk_dim3 workgroup;
	struct sdk_dim3 grid; /* in work-items, not in workgroups */
	uint8_t reserved[56];
};

/* 1.0 appended the addresses of both sides. */
struct sdk_memory_copy {
	struct sdk_record head;
	uint64_t to_agent;
	uint64_t from_agent;
	uint64_t bytes;
};

enum sdk_copy {
	SDK_COPY_NONE = 0,
	SDK_COPY_HOST_TO_HOST = 1,
	SDK_COPY_HOST_TO_DEVICE = 2,
	SDK_COPY_DEVICE_TO_HOST = 3,
	SDK_COPY_DEVICE_TO_DEVICE = 4,
};

/* ------------------------------------------------------------------ PC samples */

enum sdk_sampling_method {
	SDK_METHOD_STOCHASTIC = 1, /* MI300 and later; the interval is a power of two of cycles */
	SDK_METHOD_HOST_TRAP = 2,  /* MI200 and later; the interval is in microseconds */
};

#define SDK_SAMPLING_POWER_OF_2 1u /* flag: the interval must be one */

struct sdk_sampling_config {
	uint64_t size;
	int method;
	int unit;
	size_t min_interval;
	size_t max_interval;
	uint64_t flags;
};

typedef int (*sdk_sampling_fn)(const struct sdk_sampling_config *configs, size_t count, void *data);

enum sdk_sample_kind {
	SDK_SAMPLE_INVALID = 1,
	SDK_SAMPLE_HOST_TRAP = 2,
	SDK_SAMPLE_STOCHASTIC = 3,
};

struct sdk_pc {
	uint64_t code_object; /* 0: unknown, and the offset is an address */
	uint64_t offset;      /* from the place where the code object was loaded */
};

struct sdk_host_trap_sample {
	uint64_t size;
	uint8_t other1[8];
	struct sdk_pc pc;
	uint8_t other2[16];
	uint64_t dispatch_id; /* 0: unknown */
	uint8_t other3[32];
};

struct sdk_stochastic_sample {
	uint64_t size;
	uint8_t other1[2];
	uint8_t bits; /* SDK_SAMPLE_ISSUED, then the type of the instruction */
	uint8_t other2[13];
	struct sdk_pc pc;
	uint8_t other3[32];
	uint64_t dispatch_id; /* 0: unknown */
	uint8_t other4[16];
	uint32_t snapshot; /* the reason, then what the scheduler issued and what was stalled */
	uint8_t other5[4];
};

#define SDK_SAMPLE_ISSUED 1u        /* the wave issued its instruction */
#define SDK_SNAPSHOT_REASON 0xfu    /* for not issuing it */
#define SDK_SNAPSHOT_ISSUED 0x7fe0u /* the scheduler issued instructions of these types */

/* ------------------------------------------------------------------ agents */

#define SDK_VISIBLE_TO_HIP 2u

struct sdk_agent {
	uint64_t size;
	uint64_t id;
	int type;
	uint8_t other1[52];
	uint32_t compute_units;
	uint8_t other2[64];
	uint32_t max_clock_mhz;
	uint8_t other3[104];
	const char *name; /* "gfx942" */
	uint8_t other4[8];
	const char *product;
	uint8_t other5[16];
	int32_t logical_type_id; /* counts the agents of this type */
	uint32_t visibility;     /* bits: 1 HSA, SDK_VISIBLE_TO_HIP */
	uint8_t uuid[16];
};

typedef int (*sdk_agents_fn)(int version, const struct sdk_agent **agents, size_t count,
			     void *data);

/*
 * The vendor's sizes, and the offsets in structs that Triton's wheel does not declare.
 * tests/python/test_rocprofiler_abi.py compares the others with its headers (docs/design/amd.md).
 */
#define SDK_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type);
#define SDK_AT(type, field, offset)                                                                \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field);
SDK_SIZE(sdk_client, 24)
SDK_SIZE(sdk_configure_result, 32)
SDK_SIZE(sdk_callback_record, 64)
SDK_SIZE(sdk_code_object, 88)
SDK_SIZE(sdk_kernel_symbol, 72)
SDK_SIZE(sdk_record_header, 16)
SDK_SIZE(sdk_record, 56)
SDK_SIZE(sdk_dispatch, 184)
SDK_SIZE(sdk_memory_copy, 80)
SDK_AT(sdk_memory_copy, to_agent, 56)
SDK_AT(sdk_memory_copy, from_agent, 64)
SDK_AT(sdk_memory_copy, bytes, 72)
SDK_SIZE(sdk_sampling_config, 40)
SDK_AT(sdk_sampling_config, method, 8)
SDK_AT(sdk_sampling_config, unit, 12)
SDK_AT(sdk_sampling_config, min_interval, 16)
SDK_AT(sdk_sampling_config, max_interval, 24)
SDK_AT(sdk_sampling_config, flags, 32)
SDK_SIZE(sdk_pc, 16)
SDK_AT(sdk_pc, offset, 8)
SDK_SIZE(sdk_host_trap_sample, 88)
SDK_AT(sdk_host_trap_sample, pc, 16)
SDK_AT(sdk_host_trap_sample, dispatch_id, 48)
SDK_SIZE(sdk_stochastic_sample, 104)
SDK_AT(sdk_stochastic_sample, bits, 10)
SDK_AT(sdk_stochastic_sample, pc, 24)
SDK_AT(sdk_stochastic_sample, dispatch_id, 72)
SDK_AT(sdk_stochastic_sample, snapshot, 96)
SDK_SIZE(sdk_agent, 312)
#undef SDK_AT
#undef SDK_SIZE
