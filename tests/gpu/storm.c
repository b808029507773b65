/*
 * Threads that make all calls of the driver to which CUPTI is sensitive, for test_leaving.py:
 * each kind of thread makes rounds of calls and counts what its kernels must have
 * added to a number in device memory. Functions return the driver's result, 0 for success.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

#define FUNCTIONS(X)                                                                               \
	X(cuInit, (unsigned flags))                                                                \
	X(cuDeviceGetCount, (int *count))                                                          \
	X(cuDevicePrimaryCtxRetain, (void **context, int device))                                  \
	X(cuCtxCreate_v2, (void **context, unsigned flags, int device))                            \
	X(cuCtxDestroy_v2, (void *context))                                                        \
	X(cuCtxSetCurrent, (void *context))                                                        \
	X(cuMemAlloc_v2, (uint64_t * address, size_t bytes))                                       \
	X(cuMemFree_v2, (uint64_t address))                                                        \
	X(cuMemsetD8_v2, (uint64_t address, unsigned char value, size_t count))                    \
	X(cuMemcpyDtoH_v2, (void *to, uint64_t from, size_t bytes))                                \
	X(cuModuleLoadData, (void **module, const void *image))                                    \
	X(cuModuleGetFunction, (void **function, void *module, const char *name))                  \
	X(cuModuleUnload, (void *module))                                                          \
	X(cuStreamCreate, (void **stream, unsigned flags))                                         \
	X(cuStreamDestroy_v2, (void *stream))                                                      \
	X(cuStreamSynchronize, (void *stream))                                                     \
	X(cuStreamBeginCapture_v2, (void *stream, int mode))                                       \
	X(cuStreamEndCapture, (void *stream, void **graph))                                        \
	X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))       \
	X(cuGraphExecUpdate_v2, (void *exec, void *graph, void *result))                           \
	X(cuGraphLaunch, (void *exec, void *stream))                                               \
	X(cuGraphExecDestroy, (void *exec))                                                        \
	X(cuGraphDestroy, (void *graph))                                                           \
	X(cuLaunchHostFunc, (void *stream, void (*function)(void *), void *data))                  \
	X(cuLaunchKernel,                                                                          \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
	   unsigned bz, unsigned shared, void *stream, void **parameters, void **extra))

#define POINTER(name, arguments) static int(*name) arguments;
FUNCTIONS(POINTER)

#define RELAXED 2
#define NODES 20
/* Prints the call that fails first. */
#define TRY(call)                                                                                  \
	do {                                                                                       \
		int result_ = (call);                                                              \
		if (result_) {                                                                     \
			note_failure(#call, result_);                                              \
			return result_;                                                            \
		}                                                                                  \
	} while (0)

static void note_failure(const char *call, int result)
{
	static atomic_flag was_printed = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&was_printed))
		fprintf(stderr, "storm: %s returned %d\n", call, result);
}

static const char ptx[] =
	".version 8.0\n.target sm_80\n.address_size 64\n"
	".visible .entry add(.param .u64 p){.reg .u64 %r<3>; ld.param.u64 %r0,[p];"
	" mov.u64 %r1,1; atom.global.add.u64 %r2,[%r0],%r1; ret;}\n";

enum kind {
	LAUNCH,
	REPLAY,
	CAPTURE,
	UPDATE,
	MODULE,
	STREAM,
	HOST,
	CONTEXT,
	KINDS,
};

struct state {
	enum kind kind;
	int device;
	void *context;
	void *module;
	void *function;
	void *stream;
	void *exec;
	uint64_t address;
	uint64_t expected;
	void (*host)(void *); /* of the program; NULL: one of this library */
	_Atomic uint64_t hosts;
	uint64_t hosts_expected;
	pthread_t thread;
	_Atomic int result;
	_Atomic uint64_t rounds;
};

static int launch(struct state *s, void *function, void *stream, int times)
{
	void *parameters[] = {&s->address};

	for (int i = 0; i < times; i++)
		TRY(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	s->expected += (uint64_t)times;
	return 0;
}

static int capture(struct state *s, void **graph)
{
	uint64_t before = s->expected;

	TRY(cuStreamBeginCapture_v2(s->stream, RELAXED));
	TRY(launch(s, s->function, s->stream, NODES));
	s->expected = before;
	return cuStreamEndCapture(s->stream, graph);
}

static int prepare(struct state *s)
{
	void *graph;

	if (s->kind == CONTEXT)
		TRY(cuCtxCreate_v2(&s->context, 0, s->device));
	else
		TRY(cuDevicePrimaryCtxRetain(&s->context, s->device));
	TRY(cuCtxSetCurrent(s->context));
	TRY(cuModuleLoadData(&s->module, ptx));
	TRY(cuModuleGetFunction(&s->function, s->module, "add"));
	TRY(cuStreamCreate(&s->stream, 1));
	TRY(cuMemAlloc_v2(&s->address, 8));
	TRY(cuMemsetD8_v2(s->address, 0, 8));
	if (s->kind != REPLAY && s->kind != UPDATE)
		return 0;
	TRY(capture(s, &graph));
	TRY(cuGraphInstantiateWithFlags(&s->exec, graph, 0));
	return cuGraphDestroy(graph);
}

static int replay(struct state *s, void *exec)
{
	TRY(cuGraphLaunch(exec, s->stream));
	s->expected += NODES;
	return 0;
}

static int capture_and_replay(struct state *s)
{
	void *graph;
	void *exec;

	TRY(capture(s, &graph));
	TRY(cuGraphInstantiateWithFlags(&exec, graph, 0));
	TRY(replay(s, exec));
	TRY(cuStreamSynchronize(s->stream));
	TRY(cuGraphExecDestroy(exec));
	return cuGraphDestroy(graph);
}

static int update(struct state *s)
{
	uint64_t info[8] = {0};
	void *graph;

	TRY(capture(s, &graph));
	TRY(cuGraphExecUpdate_v2(s->exec, graph, info));
	TRY(replay(s, s->exec));
	TRY(cuStreamSynchronize(s->stream));
	return cuGraphDestroy(graph);
}

static int load(struct state *s)
{
	void *module;
	void *function;

	TRY(cuModuleLoadData(&module, ptx));
	TRY(cuModuleGetFunction(&function, module, "add"));
	TRY(launch(s, function, s->stream, 3));
	TRY(cuStreamSynchronize(s->stream));
	return cuModuleUnload(module);
}

static int new_stream(struct state *s)
{
	void *stream;

	TRY(cuStreamCreate(&stream, 1));
	TRY(launch(s, s->function, stream, 3));
	TRY(cuStreamSynchronize(stream));
	return cuStreamDestroy_v2(stream);
}

static void count_host(void *data)
{
	atomic_fetch_add(&((struct state *)data)->hosts, 1);
}

static int call_host(struct state *s)
{
	TRY(launch(s, s->function, s->stream, 1));
	TRY(cuLaunchHostFunc(s->stream, s->host ? s->host : count_host, s));
	s->hosts_expected++;
	TRY(launch(s, s->function, s->stream, 1));
	return cuStreamSynchronize(s->stream);
}

/* Reads the number and compares; frees what was prepared. */
static int check(struct state *s)
{
	uint64_t counted = 0;

	TRY(cuCtxSetCurrent(s->context));
	TRY(cuStreamSynchronize(s->stream));
	TRY(cuMemcpyDtoH_v2(&counted, s->address, 8));
	if (counted != s->expected || (!s->host && s->hosts != s->hosts_expected)) {
		fprintf(stderr, "storm: kind %d counted %llu instead of %llu\n", (int)s->kind,
			(unsigned long long)counted, (unsigned long long)s->expected);
		return -1;
	}
	return 0;
}

static int new_context(struct state *s)
{
	TRY(launch(s, s->function, s->stream, 5));
	TRY(check(s));
	if (s->expected < 500)
		return 0;
	TRY(cuCtxDestroy_v2(s->context));
	s->expected = 0;
	return prepare(s);
}

EXPORT void *storm_open(int kind, int device, void (*host)(void *), int *result)
{
	struct state *s = calloc(1, sizeof(*s));
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);

#define FIND(name, arguments) *(void **)&(name) = dlsym(cuda, #name);
	FUNCTIONS(FIND)
	s->kind = (enum kind)kind;
	s->device = device;
	s->host = host;
	*result = cuInit(0);
	if (!*result)
		*result = prepare(s);
	return s;
}

EXPORT int storm_devices(void)
{
	int count = 0;

	return cuDeviceGetCount(&count) ? 0 : count;
}

static int make_calls(struct state *s)
{
	TRY(cuCtxSetCurrent(s->context));
	switch (s->kind) {
	case LAUNCH:
		TRY(launch(s, s->function, s->stream, 50));
		return cuStreamSynchronize(s->stream);
	case REPLAY:
		TRY(replay(s, s->exec));
		TRY(replay(s, s->exec));
		return cuStreamSynchronize(s->stream);
	case CAPTURE:
		return capture_and_replay(s);
	case UPDATE:
		return update(s);
	case MODULE:
		return load(s);
	case STREAM:
		return new_stream(s);
	case HOST:
		return call_host(s);
	default:
		return new_context(s);
	}
}

EXPORT int storm_round(struct state *s)
{
	int result = make_calls(s);

	atomic_fetch_add(&s->rounds, 1);
	return result;
}

EXPORT uint64_t storm_rounds(struct state *s)
{
	return atomic_load(&s->rounds);
}

EXPORT int storm_check(struct state *s)
{
	return check(s);
}

static _Atomic int must_end;

static void *run(void *data)
{
	struct state *s = data;

	while (!s->result && !must_end)
		s->result = storm_round(s);
	return NULL;
}

/* In a separate thread, which the program's runtime does not know. */
EXPORT int storm_start(struct state *s)
{
	return pthread_create(&s->thread, NULL, run, s);
}

/* The error of its thread until now. */
EXPORT int storm_result(struct state *s)
{
	return atomic_load(&s->result);
}

EXPORT int storm_join(struct state *s)
{
	must_end = 1;
	pthread_join(s->thread, NULL);
	return s->result;
}
