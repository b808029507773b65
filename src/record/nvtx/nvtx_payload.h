/*
 * Payloads of NVTX ranges: the communicator in the arguments of an NCCL function. NCCL registers
 * schemas with the names of its arguments; the names decide which one is the communicator, and the
 * schema where it is.
 */
#ifndef RECORD_NVTX_NVTX_PAYLOAD_H
#define RECORD_NVTX_NVTX_PAYLOAD_H

#include "record/nvtx/nvtx_abi.h"

struct nvtx_communicator {
	uint64_t id;    /* equal in all of its ranks; 0: none */
	uint32_t ranks; /* 0: not known */
};

/* Returns the id of the schema. It is copied if it has a communicator. */
uint64_t nvtx_payload_register(const void *domain, const struct nvtx_schema *schema);
/* The communicator in the payloads of a range; {0} if they have none or are too short. */
struct nvtx_communicator nvtx_payload_communicator(const void *domain,
						   const struct nvtx_payload_data *data,
						   size_t count);

#endif
