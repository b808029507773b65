/*
 * Controls of the fake libcupti and libcuda. Tests find the functions with dlsym() in the
 * library that the backend loads (unit/cuda/cuda_session.h does it for all of FAKE_CONTROLS).
 *
 * The libraries are split by idea: cupti_subscribe.c (subscribers, their callbacks, other tools),
 * cupti_records.c (activity buffers), cupti_second.c (records of the second interface),
 * cupti_graphs.c (graphs that behave like the driver's), cupti_pc_sampling.c (PC sampling and
 * modules), cupti_pm.c (PM sampling),
 * cupti_range.c (counters of kernels), cupti_version.c (differences between versions), cuda.c
 * (devices and contexts), faults.c (any entry point fails at any call). A function fake_NAME()
 * implements an entry point; make_entries.py makes the exported ones from the backend's list of
 * symbols.
 *
 * Environment, for tests that run programs: FAKE_CUPTI_VERSION, the result of cuptiGetVersion
 * (default 130000), which also sets the sizes of records; FAKE_CUDA_VERSION, the driver's; and
 * FAKE_CUDA_MAJOR, the devices' compute capability (gpus.h has more); FAKE_CUPTI_HES: hardware
 * times are refused (0);
 * FAKE_CUPTI_FAIL, "name=code"; FAKE_CUPTI_LATE_MS: buffers are handed over that long after the
 * flush returned.
 */
#pragma once

#include <stdbool.h>

#include "backend/cuda/cupti_abi.h"
#include "format/rows.h"

#define FAKE_EXPORT __attribute__((visibility("default")))
#define FAKE_ALWAYS UINT32_MAX

/* A control that sets a variable, and one that gives its value. */
#define FAKE_SETTER(name, type, variable)                                                          \
	FAKE_EXPORT void fake_##name(type value)                                                   \
	{                                                                                          \
		variable = value;                                                                  \
	}
#define FAKE_GETTER(name, type, variable)                                                          \
	FAKE_EXPORT type fake_##name(void)                                                         \
	{                                                                                          \
		return variable;                                                                   \
	}

typedef void (*fake_hook_fn)(void);

struct fake_launch {
	uint32_t call; /* enum cupti_driver_call */
	const char *name;
	void *context;
	uint32_t device;
	uint32_t stream;
	uint32_t records; /* number of records */
	uint64_t start_ns;
	uint64_t end_ns;
	bool is_unseen;    /* no callback, as for a launch made before the start */
	uint64_t node_id;  /* id of the kernel's node in a graph */
	uint64_t captures; /* captured as this node: nothing runs */
	int result;        /* status of the call; not 0: it launched nothing */
	struct launch_config config;
	void *function;       /* handle from module_function(), or NULL */
	uint32_t takes_us;    /* the call */
	void (*inside)(void); /* called by the call before it returns; NULL: nothing */
};

/* Samples of an instruction with one stall reason. */
struct fake_pc {
	uint64_t crc;
	const char *function; /* stays valid */
	const char *reason;   /* such as "wait" */
	uint32_t offset;
	uint32_t samples;
	uint32_t not_issued;
	uint32_t correlation; /* in serialized mode */
	bool is_of_graph;     /* of a graph that is older than the session */
};

/* Layouts of records of the second interface. */
enum fake_layout {
	FAKE_LAYOUT_GOOD,
	FAKE_LAYOUT_NONE,        /* no layouts */
	FAKE_LAYOUT_NO_KIND,     /* none for the kind */
	FAKE_LAYOUT_NO_FIELD,    /* a field is not in it */
	FAKE_LAYOUT_OUTSIDE,     /* a field is outside of the record */
	FAKE_LAYOUT_WIDTH,       /* a field of 3 bytes */
	FAKE_LAYOUT_SMALL_ENTRY, /* entries are smaller than those declared */
};

/* X(type, name, arguments): fake_NAME() in libcupti. */
#define FAKE_CONTROLS(X)                                                                           \
	/* A launch: callbacks at enter and exit, and its records. Its correlation id. */          \
	X(uint32_t, launch, (const struct fake_launch *launch))                                    \
	/* Other API calls take correlation ids too. */                                            \
	X(void, skip_correlations, (uint32_t count))                                               \
	/* Any record, of the size its kind has in this version; `bytes` of it are given. AMD: */  \
	/* a record that the backend does not know. */                                             \
	X(void, record, (const void *record, size_t bytes))                                        \
	/* While it is on, no buffer is handed over, whatever is asked. */                         \
	X(void, hold, (bool is_on))                                                                \
	/* A context is about to be destroyed. */                                                  \
	X(void, context_destroy, (void *context))                                                  \
	/* No tool is subscribed and nothing is enabled. */                                        \
	/* No subscriber wants an event of a resource, and no records are on. */                   \
	X(bool, is_silent, (void))                                                                 \
	X(bool, is_idle, (void))                                                                   \
	/* No host object lives, and no GPU is enabled for PM sampling. */                         \
	X(bool, pm_is_idle, (void))                                                                \
	/* Ranges pushed so far; the next ones that a decoding loses; no profiler is enabled. */   \
	X(uint32_t, ranges, (void))                                                                \
	X(void, ranges_lose, (uint32_t count))                                                     \
	X(bool, ranges_are_idle, (void))                                                           \
	/* Buffers asked for and not handed back. */                                               \
	X(int, buffers_out, (void))                                                                \
	/* The vendor's library drops that many records. */                                        \
	X(void, drop, (size_t count))                                                              \
	/* A driver call without a launch, such as one that begins or ends a capture. */           \
	X(void, call, (uint32_t call, int result))                                                 \
	X(uint32_t, open_captures, (void))                                                         \
	/* The same for a call that succeeds, during which `inside` is called. */                  \
	X(void, call_around, (uint32_t call, void (*inside)(void)))                                \
	/* Time in ns that the callbacks of `count` launches take, a multiple of 200. The */       \
	/* launches follow. With `is_unseen` the callbacks do nothing, and none follows. */        \
	X(uint64_t, time_launches, (const struct fake_launch *launch, uint32_t count))             \
	/* Each entry point that hands over a callback calls this first; NULL: nothing. */         \
	X(void, set_hook, (void (*hook)(void)))                                                    \
	/* A bare graph event. Nodes, graphs and executable graphs are given by id. */             \
	X(void, graph_event,                                                                       \
	  (uint32_t event, uint64_t node_id, uint64_t original_id, int node_type))                 \
	/* Graphs that behave as the driver's: ids, events and clones come by themselves. */       \
	X(uint32_t, graph_create, (void))                                                          \
	X(uint64_t, graph_add_kernel, (uint32_t graph))                                            \
	/* A kernel launched while its stream is captured into `graph`; the node's id. */          \
	X(uint64_t, graph_capture_kernel, (uint32_t graph, const char *name))                      \
	/* A clone of `child` within `graph`; the embedded graph's id. */                          \
	X(uint32_t, graph_add_child, (uint32_t graph, uint32_t child))                             \
	/* A conditional node's body, empty; its graph's id. */                                    \
	X(uint32_t, graph_add_body, (uint32_t graph))                                              \
	X(uint32_t, graph_clone, (uint32_t graph))                                                 \
	X(uint32_t, graph_instantiate, (uint32_t graph))                                           \
	/* cuGraphExecUpdate(): the executable takes over the parameters of `graph`. */            \
	X(void, graph_update, (uint32_t exec, uint32_t graph))                                     \
	/* One replay: a record for each kernel node; bodies run if `runs_bodies`. */              \
	X(uint32_t, graph_launch, (uint32_t exec, const char *name, bool runs_bodies))             \
	/* The same, during which `inside` is called as if by another thread at that moment. */    \
	X(uint32_t, graph_launch_around, (uint32_t exec, const char *name, void (*inside)(void)))  \
	/* The same: `after` is called between the callback of its end and its return. */          \
	X(uint32_t, graph_launch_leaving, (uint32_t exec, const char *name, void (*after)(void)))  \
	/* The result of the last replay, or of any call once the context is lost. */              \
	X(int, graph_result, (void))                                                               \
	X(void, graph_destroy, (uint32_t graph))                                                   \
	X(void, graph_exec_destroy, (uint32_t exec))                                               \
	/* Modules: their events and calls. A function is for fake_launch.function. */             \
	X(void *, module_load, (const void *cubin, size_t bytes))                                  \
	X(void *, module_function, (void *module, const char *name))                               \
	X(void, module_unload, (void *module))                                                     \
	X(uint64_t, module_crc, (void *module))                                                    \
	/* PC sampling. A context points to a byte, its device. The hardware takes samples. */     \
	X(void, pcs_take, (void *context, const struct fake_pc *pc))                               \
	X(void, pcs_non_user, (void *context, uint64_t samples))                                   \
	/* The hardware buffer is full. */                                                         \
	X(void, pcs_fill, (void *context))                                                         \
	/* 0: the context is not enabled. */                                                       \
	X(uint32_t, pcs_period, (void *context))                                                   \
	X(bool, pcs_is_started, (void *context))                                                   \
	X(bool, pcs_is_serialized, (void *context))                                                \
	/* Calls that start, stop, enable or disable sampling while a callback of this call is */  \
	/* not enabled. */                                                                         \
	X(uint32_t, pcs_changes_without, (uint32_t call))                                          \
	/* A context was created. */                                                               \
	X(void, context_create, (void *context))                                                   \
	/* Another tool in the process: subscribes; false if one has already. */                   \
	X(bool, other_subscribe, (const char *name))                                               \
	X(void, other_unsubscribe, (void))                                                         \
	/* It registers its own activity callbacks and enables kernels. */                         \
	X(void, other_start, (void))                                                               \
	/* It flushes and disables kernels; how many records it got. */                            \
	X(size_t, other_stop, (void))                                                              \
	/* It calls cuptiFinalize(). */                                                            \
	X(void, other_finalize, (void))                                                            \
	/* Another tool subscribes to the second interface, and records kernels. */                \
	X(int, second_subscribe, (const char *name, bool allows_several))                          \
	/* How many kernels it got since it subscribed, after a flush. */                          \
	X(size_t, second_count, (void))                                                            \
	X(void, second_unsubscribe, (void))                                                        \
	/* This attribute of the second interface is refused; 0: none. */                          \
	X(void, refuse_attribute, (int attribute))                                                 \
	/* Layouts are given wrongly from now on: enum fake_layout. */                             \
	X(void, set_layout, (int layout))                                                          \
	/* See faults.h: calls `first` to `first` + `count` - 1 from now on fail. 0: none. */      \
	X(void, fail, (const char *name, uint32_t first, uint32_t count, int code))                \
	X(uint32_t, calls, (const char *name))

/* The same in libcuda, as fake_NAME(). */
#define FAKE_CUDA_CONTROLS(X)                                                                      \
	/* How often a context was waited for, and how many different ones. */                     \
	X(unsigned, synchronized, (void))                                                          \
	X(unsigned, synchronized_contexts, (void))                                                 \
	/* A wait for a context calls this first; NULL: nothing. */                                \
	X(void, set_waiting, (void (*waiting)(void)))                                              \
	/* The primary context of the first device; NULL: it has none. */                          \
	X(void, set_primary, (void *context))                                                      \
	/* Retaining a primary context calls this first: CUPTI's callback; NULL: nothing. */       \
	X(void, set_retaining, (void (*retaining)(void)))                                          \
	/* Contexts pushed and not popped on the calling thread. */                                \
	X(int, pushed, (void))

/* In libcuda; it is not an entry point that the backend uses. */
FAKE_EXPORT int cuInit(unsigned flags);

#define FAKE_DECLARE(type, name, arguments) type fake_##name arguments;
FAKE_CONTROLS(FAKE_DECLARE)
FAKE_CUDA_CONTROLS(FAKE_DECLARE)
#undef FAKE_DECLARE
