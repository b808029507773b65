/* HIP calls that roctracer reports, by their numbers in this HIP, and arguments of launches. */
#ifndef BACKEND_AMD_ROCTRACER_CALLS_H
#define BACKEND_AMD_ROCTRACER_CALLS_H

#include "backend/amd/roctracer_api.h"
#include "backend/gpu/launches.h"
#include "format/rows.h"

enum roctracer_call_kind {
	CALL_UNKNOWN,
	CALL_LAUNCH,
	CALL_GRAPH, /* a launch of a graph */
	CALL_MEMORY,
	CALL_OF_GRAPH, /* makes, changes or destroys a graph (hip_graphs.h) */
	CALL_DEVICE,   /* changes the thread's device */
};

#define HIP_DEVICE_CALLS(X)                                                                        \
	X(hipSetDevice)                                                                            \
	X(hipCtxCreate)                                                                            \
	X(hipCtxDestroy)                                                                           \
	X(hipCtxPopCurrent)                                                                        \
	X(hipCtxPushCurrent)                                                                       \
	X(hipCtxSetCurrent)

#define NO_STREAM UINT16_MAX

/* Of launches; sdk_kinds.c has the places in rocprofiler-sdk's. */
enum roctracer_arguments {
	ARGUMENTS_NONE, /* not read */
	ARGUMENTS_KERNEL,
	ARGUMENTS_MODULE,
	ARGUMENTS_EXT,
	ARGUMENTS_COOPERATIVE,
	ARGUMENTS_DRV,
	ARGUMENTS_EXC,
	ARGUMENTS_GRAPH,
};

struct roctracer_call {
	const char *name;
	uint8_t kind;            /* enum roctracer_call_kind */
	uint8_t arguments;       /* enum roctracer_arguments */
	uint8_t launch;          /* enum launch_kind */
	uint8_t records;         /* enum launch_records */
	uint8_t graph_call;      /* enum hip_graph_call */
	uint16_t stream;         /* memory calls: place of the stream, or NO_STREAM */
	_Atomic uint32_t number; /* 0: this version of HIP does not have it */
};

/* Finds the numbers of all calls. E_UNSUPPORTED if there is none to launch a kernel with. */
int roctracer_calls_find(struct proton_error *err);
/* Enables `callback` for all calls except memory operations, or for these. All or nothing. */
int roctracer_calls_enable(bool is_memory, roctracer_callback_fn callback,
			   struct proton_error *err);
/* Disables them; the first error. */
int roctracer_calls_disable(bool is_memory);

/* The configuration of a launch as read from its arguments, in few moves. */
struct roctracer_config {
	uint64_t sizes[3]; /* uint32_t grid[3], block[3] */
	uint32_t shared_bytes;
};

/* On the launching thread. False if the arguments are not known. */
bool roctracer_calls_read(const struct roctracer_call *call, const struct roctracer_hip_call *data,
			  struct roctracer_config *config_out);
/* Keeps it until the record of the launch arrives, which does not have it. */
void roctracer_calls_keep(uint32_t correlation, const struct roctracer_config *config);
/* On the thread of the records. False if too many launches were in flight since. */
bool roctracer_calls_find_kept(uint32_t correlation, struct launch_config *config_out);
/* The stream of a launch or a memory operation; 0: the default stream, or unknown. */
uint64_t roctracer_calls_stream(const struct roctracer_call *call,
				const struct roctracer_hip_call *data);

#endif
