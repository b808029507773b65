/*
 * ABI of CUPTI: the part that this backend uses, declared without an SDK.
 * Written for CUPTI 12.4 to 13.x; tests/python/test_cupti_abi.py compares it with the real headers
 * where they are installed.
 *
 * Activity records grow at their end from version to version: the declarations are the prefix that
 * all of these versions share.
 */
#pragma once

#include "backend/cuda/cupti_second_abi.h"

enum cupti_result {
	CUPTI_OK = 0,
	CUPTI_E_INVALID_CONTEXT = 3,
	CUPTI_E_OUT_OF_MEMORY = 8,
	CUPTI_E_MAX_LIMIT_REACHED = 12, /* of cuptiActivityGetNextRecord: no more records */
	CUPTI_E_HARDWARE_BUSY = 26,
	CUPTI_E_NOT_COMPATIBLE = 14,
	CUPTI_E_NOT_INITIALIZED = 15, /* CUPTI does not support the driver */
	CUPTI_E_INSUFFICIENT_PRIVILEGES = 35,
	CUPTI_E_MULTIPLE_SUBSCRIBERS = 39,
	CUPTI_E_UNKNOWN = 999,
};

/* cuptiGetVersion() of the first version that accepts NULL as a buffer: 12.9. */
#define CUPTI_VERSION_NULL_BUFFER 27u

/* The first version that reports updated nodes of executable graphs. */
#define CUPTI_VERSION_NODE_UPDATED 130000u
/* From here on, a session that stays attached keeps no GPU memory. */
#define CUPTI_VERSION_KEEPS_NOTHING 130500u

enum cupti_domain {
	CUPTI_DOMAIN_DRIVER_API = 1,
	CUPTI_DOMAIN_RESOURCE = 3,
};

/* Launch calls of the driver; the runtime's cudaLaunch* and cudaGraphLaunch end in these. */
enum cupti_driver_call {
	CUPTI_CALL_MODULE_LOAD_DATA = 19,
	CUPTI_CALL_MODULE_GET_FUNCTION = 23,
	CUPTI_CALL_LAUNCH = 115,
	CUPTI_CALL_LAUNCH_GRID = 116,
	CUPTI_CALL_LAUNCH_GRID_ASYNC = 117,
	CUPTI_CALL_LAUNCH_KERNEL = 307,
	CUPTI_CALL_LAUNCH_KERNEL_PTSZ = 442,
	CUPTI_CALL_LAUNCH_COOPERATIVE = 477,
	CUPTI_CALL_LAUNCH_COOPERATIVE_PTSZ = 478,
	CUPTI_CALL_LAUNCH_COOPERATIVE_MULTI_DEVICE = 480,
	CUPTI_CALL_BEGIN_CAPTURE = 495,
	CUPTI_CALL_BEGIN_CAPTURE_PTSZ = 496,
	CUPTI_CALL_END_CAPTURE = 497,
	CUPTI_CALL_END_CAPTURE_PTSZ = 498,
	CUPTI_CALL_GRAPH_LAUNCH = 514,
	CUPTI_CALL_GRAPH_LAUNCH_PTSZ = 515,
	CUPTI_CALL_BEGIN_CAPTURE_V2 = 539,
	CUPTI_CALL_BEGIN_CAPTURE_V2_PTSZ = 540,
	CUPTI_CALL_LAUNCH_KERNEL_EX = 652,
	CUPTI_CALL_LAUNCH_KERNEL_EX_PTSZ = 653,
	CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH = 720,
	CUPTI_CALL_BEGIN_CAPTURE_TO_GRAPH_PTSZ = 721,
};

enum cupti_resource_event {
	CUPTI_RESOURCE_CONTEXT_CREATED = 1,
	CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING = 2,
	CUPTI_RESOURCE_MODULE_LOADED = 6,
	CUPTI_RESOURCE_MODULE_UNLOAD_STARTING = 7,
	CUPTI_RESOURCE_MODULE_PROFILED = 8,
	CUPTI_RESOURCE_GRAPH_CREATED = 9,
	CUPTI_RESOURCE_GRAPH_DESTROY_STARTING = 10,
	CUPTI_RESOURCE_GRAPH_CLONED = 11,
	CUPTI_RESOURCE_GRAPHNODE_CREATE_STARTING = 12,
	CUPTI_RESOURCE_GRAPHNODE_CREATED = 13,
	CUPTI_RESOURCE_GRAPHEXEC_CREATE_STARTING = 17,
	CUPTI_RESOURCE_GRAPHEXEC_CREATED = 18,
	CUPTI_RESOURCE_GRAPHEXEC_DESTROY_STARTING = 19,
	CUPTI_RESOURCE_GRAPHNODE_CLONED = 20,
	CUPTI_RESOURCE_GRAPHNODE_UPDATED = 22, /* 13.0 */
};

enum cupti_call_site {
	CUPTI_SITE_ENTER = 0,
	CUPTI_SITE_EXIT = 1,
};

struct cupti_callback_data {
	uint32_t site;
	const char *function_name;
	const void *function_params;
	void *function_return_value;
	const char *symbol_name;
	void *context;
	uint32_t context_uid;
	uint64_t *correlation_data;
	uint32_t correlation_id;
};

/* function_params of cuLaunchKernel() and cuLaunchCooperativeKernel(). */
struct cuda_launch_params {
	void *function;
	uint32_t sizes[7]; /* grid, block, bytes of shared memory */
	void *stream;
};

/* Of cuLaunchKernelEx(), and the configuration there. */
struct cuda_launch_config {
	uint32_t sizes[7];
	void *stream;
};

struct cuda_launch_ex_params {
	const struct cuda_launch_config *config;
	void *function;
};

struct cupti_resource_data {
	void *context;
	void *resource_handle;
	void *resource_descriptor; /* struct cupti_graph_data in graph events */
};

#define CUDA_GRAPH_NODE_KERNEL 0
#define CUDA_GRAPH_NODE_MEMCPY 1
#define CUDA_GRAPH_NODE_MEMSET 2

struct cupti_graph_data {
	void *graph;
	void *original_graph;
	void *node;
	void *original_node;
	int node_type;
	void *dependency;
	void *graph_exec;
};

enum cupti_activity_kind {
	CUPTI_KIND_MEMCPY = 1,
	CUPTI_KIND_MEMSET = 2,
	CUPTI_KIND_CONCURRENT_KERNEL = 10,
	CUPTI_KIND_MEMCPY_PEER = 22,
};

enum cupti_activity_attribute {
	CUPTI_ATTRIBUTE_ZEROED_OUT_BUFFER = 5,
	CUPTI_ATTRIBUTE_PER_THREAD_BUFFER = 9,
};

#define CUPTI_FLUSH_FORCED 1u

struct cupti_activity {
	uint32_t kind;
};

/* The common prefix of CUpti_ActivityKernel9 (12.4) and later. Times in ns. */
struct cupti_kernel {
	uint32_t kind;
	uint8_t cache_config;
	uint8_t shared_memory_config;
	uint16_t registers_per_thread;
	uint32_t partitioned_cache[2];
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t completed_ns;
	uint32_t device_id;
	uint32_t context_id;
	uint32_t stream_id;
	int32_t grid[3];
	int32_t block[3];
	int32_t static_shared_bytes;
	int32_t dynamic_shared_bytes;
	uint32_t local_bytes_per_thread;
	uint32_t local_bytes_total;
	uint32_t correlation_id;
	int64_t grid_id;
	const char *name; /* mangled; CUPTI keeps one copy per name and never frees it */
	uint8_t unused[32];
	uint64_t graph_node_id; /* upper half: the graph; 0 outside graphs */
};

/* The common prefix of CUpti_ActivityMemcpy5 (12.4) and later. Times in ns. */
struct cupti_memcpy {
	uint32_t kind;
	uint8_t copy_kind;
	uint8_t source_kind; /* kind of memory: pageable, pinned, device, ... */
	uint8_t destination_kind;
	uint8_t flags;
	uint64_t bytes;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t device_id;
	uint32_t context_id;
	uint32_t stream_id;
	uint32_t correlation_id;
	uint32_t runtime_correlation_id;
	uint32_t padding;
	void *reserved;
	uint64_t graph_node_id;
};

/* Prefix of CUpti_ActivityMemcpyPtoP4: a copy between two devices. */
struct cupti_memcpy_peer {
	uint32_t kind;
	uint8_t copy_kind;
	uint8_t source_kind;
	uint8_t destination_kind;
	uint8_t flags;
	uint64_t bytes;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t device_id;
	uint32_t context_id;
	uint32_t stream_id;
	uint32_t source_device_id;
	uint32_t source_context_id;
	uint32_t destination_device_id;
	uint32_t destination_context_id;
	uint32_t correlation_id;
	void *reserved;
	uint64_t graph_node_id;
};

/* Prefix of CUpti_ActivityMemset4. */
struct cupti_memset {
	uint32_t kind;
	uint32_t value;
	uint64_t bytes;
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t device_id;
	uint32_t context_id;
	uint32_t stream_id;
	uint32_t correlation_id;
	uint16_t flags;
	uint16_t memory_kind;
	uint32_t padding;
	void *reserved;
	uint64_t graph_node_id;
};

typedef void (*cupti_callback_fn)(void *user, uint32_t domain, uint32_t call, const void *data);
typedef uint64_t (*cupti_timestamp_fn)(void);
typedef void (*cupti_buffer_requested_fn)(uint8_t **buffer, size_t *bytes, size_t *max_records);
typedef void (*cupti_buffer_completed_fn)(void *context, uint32_t stream, uint8_t *buffer,
					  size_t bytes, size_t valid_bytes);
