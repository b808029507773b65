/* Internal interface of the rocprofiler-sdk backend. */
#pragma once

#include <stdatomic.h>

#include "backend/amd/sdk_abi.h"
#include "base/err.h"
#include "record/backend.h"

/* ------------------------------------------------------------------ sdk_pc_sampling.c */

/* True if the name of `mode` is pcsampling. */
bool sdk_pc_sampling_is_mode(const char *mode);
int sdk_pc_sampling_read_mode(const char *mode, uint64_t *interval, struct proton_error *err);
/* The mode of the session that starts, which has been checked. Before the registration. */
void sdk_pc_sampling_want(const char *mode);

/* While the tool registers. Failures are reported by a later start. */
void sdk_pc_sampling_configure(void);
/* True if code objects have to be kept. */
bool sdk_pc_sampling_is_configured(void);
int sdk_pc_sampling_start(struct proton_error *err);
void sdk_pc_sampling_stop(void);
/* Adds the samples of all work that has finished. After the dispatches' records have arrived. */
void sdk_pc_sampling_flush(void);
void sdk_pc_sampling_describe(backend_add_fn add, void *user);
void sdk_pc_sampling_forked(void);

/* On the thread of the records: a dispatch is not for the profile, and neither are its samples. */
void sdk_pc_sampling_ignore_dispatch(uint64_t dispatch_id);

/* Functions of librocprofiler-sdk, loaded at run time. */

struct sdk_api {
#define V(name, args) int(*name) args;
#include "backend/amd/sdk_symbols.def"
#undef V
};

/* Set by sdk_api_load(). */
extern struct sdk_api sdk;

/* Opens the library once. E_NOLIB with the searched places; E_VERSION: old, or incomplete. */
int sdk_api_load(struct proton_error *err);

/* Refuses versions before 1.0, which have other structs. major * 10000 + minor * 100 + patch. */
int sdk_api_check_version(uint32_t version, struct proton_error *err);

/* The status of a call of `call`: PROTON_OK, or E_STATE, E_VERSION, ... with the remedy. */
int sdk_api_status(int status, const char *call, struct proton_error *err);
/* The same of a call that is made here: function, arguments. */
#define SDK_CALL(err, name, ...) sdk_api_status(sdk.name(__VA_ARGS__), "rocprofiler_" #name, err)

/* Life cycle: one caller of backend_use.c at a time, a fork or the library's end change it. */
enum sdk_state {
	SDK_OFF, /* no session: the library still calls back, and nothing is recorded */
	/* A session waits for the library, which HIP starts; a fork may come before. */
	SDK_POSTPONED,
	SDK_FAILED, /* the library could not be used when HIP called the tool */
	SDK_ON,     /* recording */
	SDK_ENDED,  /* the library has ended, because the program exits */
	/*
	 * The child of a process that had registered. The library's threads are missing there: its
	 * callbacks take no lock, and the first one stops the contexts that fill buffers.
	 */
	SDK_ORPHANED,
};

extern _Atomic enum sdk_state sdk_state;

static inline enum sdk_state sdk_state_now(void)
{
	/* relaxed: a launch at the very moment of a start or stop may count or not */
	return atomic_load_explicit(&sdk_state, memory_order_relaxed);
}

/* rocprofiler-sdk's contexts and buffers: made once (sdk_register.c), then only started. */
#define SDK_BUFFER_BYTES (256u << 10)

struct sdk_contexts {
	struct sdk_context profiling;
	struct sdk_context memory;
	struct sdk_buffer dispatches;
	struct sdk_buffer copies;
	_Atomic bool has_memory;
	_Atomic bool has_graph_events; /* launches of graphs have them (sdk_callbacks_on_graph()) */
};

extern struct sdk_contexts sdk_contexts;

/* Starts recording of launches; it is never stopped. */
int sdk_contexts_start_profiling(struct proton_error *err);
/* Starts recording of copies and memsets. E_UNSUPPORTED if the library does not report them. */
int sdk_contexts_start_memory(struct proton_error *err);
/* Asks the library for its complete records: 0, or its status. */
int sdk_contexts_flush(void);
/* In a forked child, on a launching thread: no buffer is filled any more. */
void sdk_contexts_stop_orphan(void);

/*
 * External correlation: 64 bits that the backend gives to each dispatch and copy, and that its
 * record carries. 0 is a dispatch of which it knows nothing: no session was active.
 */
#define SDK_ORDINAL_MAX 0x3ffffu

union sdk_external {
	uint64_t word;
	struct {
		uint64_t number : 32;  /* the launch in record/thread/record_launch.h; never 0 */
		uint64_t ordinal : 18; /* number of the dispatch in its call; 0: not of its graph */
		uint64_t stream : 12;  /* sdk_callbacks.c */
		uint64_t is_of_memory_call : 1;
		uint64_t is_ours : 1;
	};
};

_Static_assert(sizeof(union sdk_external) == sizeof(uint64_t), "external correlation");

/* Callbacks, on the application's threads. */
void sdk_callbacks_on_call(struct sdk_callback_record record, uint64_t *user, void *data);
void sdk_callbacks_on_marker(struct sdk_callback_record record, uint64_t *user, void *data);
void sdk_callbacks_on_graph(struct sdk_callback_record record, uint64_t *user, void *data);
int sdk_callbacks_on_request(uint64_t thread_id, struct sdk_context context, int kind,
			     int32_t operation, uint64_t internal, uint64_t *external, void *data);
void sdk_callbacks_start(void);
/* ROCTX ranges of libroctx64. */
void sdk_callbacks_follow_roctx(bool is_on);
/*
 * Launches since the last call that succeeded but made no dispatch, though nothing was captured:
 * the library does not see their queue. `elsewhere`: launches that another thread dispatched.
 */
uint64_t sdk_callbacks_take_silent(uint64_t *elsewhere_out);
/* True if the record of an unknown launch is from before the start. `internal`: its correlation. */
bool sdk_callbacks_is_older(uint64_t internal);
/* The bytes that a memory call copies or sets; 0: not known (any more). On any thread. */
uint64_t sdk_callbacks_bytes(uint32_t number);

/* Records, on the library's thread. */
void sdk_records_on_buffer(struct sdk_context context, struct sdk_buffer buffer,
			   struct sdk_record_header **headers, size_t count, void *data,
			   uint64_t dropped);
void sdk_records_start(void);
/* Waits for the records of all launches so far. */
int sdk_records_flush(struct proton_error *err);

/* Kernels of loaded code objects (sdk_code_objects.c). */

struct kernel_symbol {
	uint32_t frame; /* of its name, without ".kd" */
	uint32_t group_bytes;
	uint32_t registers; /* vector registers of a work-item */
	bool is_fill;       /* a memset that the runtime does with a kernel */
	bool is_copy;       /* a copy that it does so */
};

/* A kernel was loaded. On the loading thread. */
void kernel_symbols_add(const struct sdk_kernel_symbol *symbol);
/* False if the id is unknown. On the thread of the records. */
bool kernel_symbols_find(uint64_t kernel_id, struct kernel_symbol *out);

/*
 * Loaded code objects, for PC sampling: the function of a sampled instruction. The machine code is
 * copied when it is loaded (record/store/devices.h), because samples may arrive after it was
 * unloaded, and parsed at its first sample.
 */

/* A code object was loaded. On the loading thread. */
void sdk_code_objects_add(const struct sdk_code_object *loaded);
/* The function of an instruction, and the offset; `offset` is from the code's load address. */
bool sdk_code_objects_find(uint64_t id, uint64_t offset, uint32_t *function_out,
			   uint32_t *offset_out);

/*
 * Registration with rocprofiler-sdk: once per process, and before HIP makes its first queue. All
 * contexts, buffers and services are made then; later they can only be started.
 */

/* Registers once. E_NOLIB, E_VERSION; E_STATE if HIP was faster, or the parent had registered. */
int sdk_register(struct proton_error *err);
/* Registers if something else was faster. True if that made it impossible. */
bool sdk_register_is_too_late(struct proton_error *err);
/* True if HIP will call the tool, in the process that uses the GPU (ROCP_TOOL_LIBRARIES). */
bool sdk_register_is_up_to_hip(void);
/*
 * Registers if this process seems to use HIP; failures are reported by a later start. Called again,
 * before torch.profiler starts, it registers Kineto too, or says that it cannot.
 */
void sdk_register_early(void);
/* E_STATE if this process uses a GPU through a HIP that does not call the library. */
int sdk_register_check_hip(struct proton_error *err);
/* The library's version that was passed to the tool; 0 before the registration. */
uint32_t sdk_register_version(void);

/*
 * Kinds and operations of rocprofiler-sdk, found by name at run time: their numbers differ between
 * versions, and a library has kinds that its headers of an earlier version have not.
 */

#define SDK_KIND_NONE -1
#define SDK_OPERATION_MAX 4096u

struct sdk_kinds {
	int hip;         /* callbacks: HIP's runtime API */
	int marker;      /* ROCTX */
	int range_push;  /* its operation */
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
	uint8_t kind;    /* enum sdk_call_kind */
	bool is_pointer; /* the stream is in a struct that the first argument points to */
	int8_t stream;
	int8_t bytes; /* size of copied or set memory, in units of: */
	uint8_t unit;
	uint8_t graph; /* enum hip_graph_call */
};

/* By operation. Read-only after sdk_kinds_find(). */
extern struct sdk_call_info sdk_calls[SDK_OPERATION_MAX];

/* Asks the library for the numbers, once. E_VERSION if it lacks a kind that is needed. */
int sdk_kinds_find(struct proton_error *err);
/* Lists the operations of calls of these kinds, at most `capacity`. */
size_t sdk_kinds_calls(bool of_memory, int32_t *operations, size_t capacity);
/* The operation with a name that ends so; -1: the library does not have it. */
int32_t sdk_kinds_operation(int kind, const char *name);
