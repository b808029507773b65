/*
 * NVTX ranges as scopes: ranges that a program pushes and pops with nvtxRangePush and nvtxRangePop
 * (and their variants for domains) become scopes of the thread. This library is NVTX's injection
 * library for that: NVTX loads it, because NVTX_INJECTION64_PATH names it while a backend requests
 * it.
 */
#pragma once

#include <stdbool.h>

#include "record/nvtx/nvtx_abi.h"

#include <libproton/status.h>

/* Sets the variable to this library, unless ranges are disabled or it names another tool. */
void nvtx_attach(void);
/* Unsets it, unless it was changed since. */
void nvtx_detach(void);
/* Prints a warning, once, if the user named another tool there. */
void nvtx_report_other(void);

/* Ranges of ROCTX, in the default domain, unless the user disabled them. */
bool nvtx_is_wanted(void);
int nvtx_push(const char *message);
int nvtx_pop(void);

/* Called by each copy of NVTX in the process at its first use; returns 1 if its ranges are used. */
PROTON_API int InitializeInjectionNvtx2(nvtx_get_table_fn get_table);
/* Extensions: ranges may be popped with a payload, as NCCL's are. */
PROTON_API int InitializeInjectionNvtxExtension(struct nvtx_extension *extension);

/*
 * Payloads of NVTX ranges: the communicator in the arguments of an NCCL function. NCCL registers
 * schemas with the names of its arguments; the names decide which one is the communicator, and the
 * schema where it is.
 */

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
