/* AMD GPUs of the machine, as the kernel driver lists them, and their HIP ordinals. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The nodes of the HSA runtime are CPUs too. */
struct amd_gpu {
	uint32_t node;      /* number of the node in the HSA runtime: HSA_AMD_AGENT_INFO_NODE */
	uint64_t unique_id; /* 0: none */
};

/* The GPUs that this process may use, by node; their number, which may exceed `capacity`. */
size_t amd_gpus_read(struct amd_gpu *gpus_out, size_t capacity);
/* The HIP ordinal of this node; -1: none. HIP must have read the environment before. */
int amd_gpus_ordinal_of_node(uint32_t node);
/* The number of devices that HIP reports; -1 if HIP is not loaded or has no device. */
int amd_gpus_hip_count(void);

/* True if this process has initialized the HSA runtime. */
bool amd_gpus_are_open(void);
/* True if it has made a queue of a GPU, since the process exists. Reads all of its mappings. */
bool amd_gpus_have_queue(void);
/* The reason that this process has no GPU in HIP, in a buffer of the thread; NULL: it has. */
const char *amd_gpus_problem(void);

/*
 * Visible devices: the HIP ordinals of AMD GPUs under ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
 * CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL. Vendor records name a GPU as the system counts it,
 * and programs as HIP does.
 */

#define VISIBLE_DEVICES_MAX 256

/*
 * `unique_ids` has the machine's GPUs, in the order of their nodes; 0: no id. Writes the HIP
 * ordinal of each, or -1 if HIP does not have it. `hip_count` is the number of devices that HIP
 * reports, -1 if unknown.
 */
void amd_gpus_map_visible(const uint64_t *unique_ids, size_t count, int hip_count,
			  int *ordinals_out);
