/*
 * Graphs in the fakes of rocprofiler-sdk and of roctracer, as HIP makes them: the controls of
 * graphs in fake_cupti.h. Each thread captures its own stream, which the fake libamdhip64 knows.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/amd_calls.h"

#define GRAPHS (1u << 22)
#define GRAPH_HANDLES 0x10000000u
#define EXEC_HANDLES 0x20000000u

static _Atomic uint32_t kernels[GRAPHS]; /* by graph or executable */
static _Atomic uint32_t last_id;
static _Atomic uint32_t last_stream = 100;
static _Atomic uint64_t last_capture;

static _Thread_local uint32_t stream; /* that this thread captures */
static _Thread_local uint32_t captured_into;
static _Thread_local bool is_capturing;

static uint32_t add(uint32_t count)
{
	uint32_t id = ++last_id;

	if (id >= GRAPHS)
		abort();
	kernels[id] = count;
	return id;
}

static uint64_t graph_handle(uint32_t id)
{
	return GRAPH_HANDLES + 16ull * id;
}

static uint64_t exec_handle(uint32_t id)
{
	return EXEC_HANDLES + 16ull * id;
}

static uint64_t stream_handle(void)
{
	if (!stream)
		stream = ++last_stream;
	return amd_stream(stream);
}

FAKE_EXPORT uint64_t fake_capture_stream(void)
{
	return stream_handle();
}

typedef void (*set_capture_fn)(uint64_t stream, uint64_t number);

/* Found once: ThreadSanitizer's dlopen() takes a lock that dl_iterate_phdr() may wait for. */
static set_capture_fn find_set_capture(void)
{
	static _Atomic(set_capture_fn) found;
	set_capture_fn set = atomic_load(&found);
	const char *path = getenv("PROTON_HIP_PATH");
	void *hip = path && !set ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;

	if (hip)
		find_function(&set, hip, "fake_set_stream_capture");
	atomic_store(&found, set);
	return set;
}

/* 0: the capture has ended. */
static void note_capture(uint64_t capture)
{
	set_capture_fn set = find_set_capture();

	if (set)
		set(stream_handle(), capture);
}

static void begin_capture(const char *name, int result)
{
	uint64_t capture = ++last_capture;

	captured_into = 0;
	is_capturing = !result;
	if (!result)
		note_capture(capture);
	amd_call(name, &(uint64_t){stream_handle()}, 1, result);
}

static void end_capture(const char *name, int result)
{
	uint64_t graph = graph_handle(captured_into ? captured_into : add(0));
	uint64_t arguments[] = {stream_handle(), (uint64_t)(uintptr_t)&graph};

	amd_call(name, arguments, 2, result);
	note_capture(0);
	is_capturing = false;
}

FAKE_EXPORT void fake_call(uint32_t call, int result)
{
	const char *name = amd_call_of(call);

	if (strncmp(name, "hipStreamBegin", strlen("hipStreamBegin")) == 0)
		begin_capture(name, result);
	else if (strncmp(name, "hipStreamEnd", strlen("hipStreamEnd")) == 0)
		end_capture(name, result);
	else
		amd_call(name, &(uint64_t){amd_stream(0)}, 1, result);
}

FAKE_EXPORT uint32_t fake_graph_create(void)
{
	return add(0);
}

/* In the thread's capture, or in a new one. */
FAKE_EXPORT uint64_t fake_graph_capture_kernel(uint32_t graph, const char *name)
{
	bool is_alone = !is_capturing;

	if (is_alone)
		begin_capture("hipStreamBeginCapture", 0);
	kernels[graph]++;
	captured_into = graph;
	fake_launch(&(struct fake_launch){.call = CUPTI_CALL_LAUNCH_KERNEL,
					  .name = name,
					  .stream = stream,
					  .records = 1,
					  .captures = 1});
	if (is_alone)
		end_capture("hipStreamEndCapture", 0);
	return 1;
}

/* A node that is added by itself makes no launch. */
FAKE_EXPORT uint64_t fake_graph_add_kernel(uint32_t graph)
{
	kernels[graph]++;
	return 1;
}

FAKE_EXPORT uint32_t fake_graph_clone(uint32_t graph)
{
	uint32_t clone = add(kernels[graph]);
	uint64_t handle = graph_handle(clone);

	amd_call("hipGraphClone", (uint64_t[]){(uint64_t)(uintptr_t)&handle, graph_handle(graph)},
		 2, 0);
	return clone;
}

FAKE_EXPORT uint32_t fake_graph_instantiate(uint32_t graph)
{
	uint32_t exec = add(kernels[graph]);
	uint64_t handle = exec_handle(exec);

	amd_call("hipGraphInstantiate",
		 (uint64_t[]){(uint64_t)(uintptr_t)&handle, graph_handle(graph)}, 2, 0);
	return exec;
}

FAKE_EXPORT void fake_graph_update(uint32_t exec, uint32_t graph)
{
	amd_call("hipGraphExecUpdate", (uint64_t[]){exec_handle(exec), graph_handle(graph)}, 2, 0);
}

FAKE_EXPORT uint32_t fake_graph_launch(uint32_t exec, const char *name, bool runs_bodies)
{
	return fake_launch(&(struct fake_launch){.call = CUPTI_CALL_GRAPH_LAUNCH,
						 .name = name,
						 .node_id = exec_handle(exec),
						 .records = kernels[exec],
						 .start_ns = 1000,
						 .end_ns = 1100});
}

FAKE_EXPORT void fake_graph_destroy(uint32_t graph)
{
	amd_call("hipGraphDestroy", &(uint64_t){graph_handle(graph)}, 1, 0);
}

FAKE_EXPORT void fake_graph_exec_destroy(uint32_t exec)
{
	amd_call("hipGraphExecDestroy", &(uint64_t){exec_handle(exec)}, 1, 0);
}
