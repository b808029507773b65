/*
 * The controls of fake_cupti.h in the fake libroctracer64: each becomes a call of HIP as
 * roctracer.c reports it. So tests of the CUDA backend run over this library too.
 */
#include <stdio.h>
#include <string.h>

#include "fake/amd_calls.h"
#include "fake/roctracer_state.h"

/* The KFD's nodes: a CPU, then the GPUs. */
#define FIRST_GPU_NODE 1

/* roctracer does not know the calls for default streams of threads. */
static const char *known_call(const char *name, char storage[static 64])
{
	const char *suffix = strstr(name, "_spt");

	if (!suffix)
		return name;
	snprintf(storage, 64, "%.*s", (int)(suffix - name), name);
	return storage;
}

/* A call that failed leaves HIP's error until the program asks for it, as programs do. */
static uint64_t call_and_check(const struct fake_hip_launch *launch)
{
	uint64_t number = fake_hip_call(launch);

	if (launch->has_failed)
		calls_set_error(0);
	return number;
}

/* roctracer stores the handle that a pointer leads to after that pointer. */
void amd_call(const char *name, const uint64_t *arguments, size_t count, int result)
{
	bool is_first = strncmp(name, "hipGraphInstantiate", strlen("hipGraphInstantiate")) == 0 ||
			strcmp(name, "hipGraphClone") == 0;
	bool is_second = strncmp(name, "hipStreamEnd", strlen("hipStreamEnd")) == 0;
	struct fake_hip_launch call = {
		.call = name,
		.is_reported_only = true,
		.has_failed = result != 0,
	};
	size_t n = 0;

	for (size_t i = 0; i < count && n < 3; i++) {
		call.words[n++] = arguments[i];
		if ((is_first && i == 0) || (is_second && i == 1))
			memcpy(&call.words[n++], (const void *)(uintptr_t)arguments[i],
			       sizeof(call.words[0]));
	}
	call_and_check(&call);
}

/* Its name is in `storage`, or a constant. */
static struct fake_hip_launch hip_launch_of(const struct fake_launch *launch,
					    char storage[static 64])
{
	const char *name = known_call(amd_call_of(launch->call), storage);
	bool is_graph = strcmp(name, "hipGraphLaunch") == 0;

	return (struct fake_hip_launch){
		.call = name,
		.name = launch->name,
		.records = launch->records,
		.kind = is_graph ? ROCTRACER_COMMAND_TASK : ROCTRACER_COMMAND_KERNEL,
		.node = FIRST_GPU_NODE + (int)launch->device,
		.queue = launch->stream,
		.stream = launch->stream ? (void *)(uintptr_t)amd_stream(launch->stream) : NULL,
		.start_ns = launch->start_ns,
		.end_ns = launch->end_ns,
		.is_unseen = launch->is_unseen,
		.is_captured = launch->captures,
		.has_failed = launch->result != 0,
		.config = launch->config,
		.graph = is_graph ? (void *)(uintptr_t)launch->node_id : NULL,
	};
}

FAKE_EXPORT uint32_t fake_launch(const struct fake_launch *launch)
{
	char storage[64];
	struct fake_hip_launch call = hip_launch_of(launch, storage);

	return (uint32_t)call_and_check(&call);
}

FAKE_EXPORT uint64_t fake_time_launches(const struct fake_launch *launch, uint32_t count)
{
	char storage[64];
	struct fake_hip_launch call = hip_launch_of(launch, storage);

	return calls_time(&call, count);
}

FAKE_EXPORT uint64_t fake_copy(const struct fake_copy *copy)
{
	static const uint32_t kinds[] = {
		[0] = ROCTRACER_COMMAND_FILL,
		[SDK_COPY_HOST_TO_DEVICE] = ROCTRACER_COMMAND_HTOD,
		[SDK_COPY_DEVICE_TO_HOST] = ROCTRACER_COMMAND_DTOH,
		[SDK_COPY_DEVICE_TO_DEVICE] = ROCTRACER_COMMAND_DTOD,
	};

	return call_and_check(&(struct fake_hip_launch){
		.call = copy->call,
		.records = copy->records ? copy->records : 1,
		.kind = kinds[copy->operation],
		.node = FIRST_GPU_NODE + (int)copy->device,
		.queue = copy->stream,
		.start_ns = copy->start_ns,
		.end_ns = copy->end_ns,
		.bytes = copy->bytes,
		.has_failed = copy->result != 0,
	});
}
