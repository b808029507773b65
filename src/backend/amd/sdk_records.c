/*
 * Records of rocprofiler-sdk: dispatches and copies, on the library's thread, in no particular
 * order. Each is matched to its launch by the external correlation that the launch gave it. Agents
 * are the GPUs that did the work.
 */
#include <stdio.h>

#include "backend/amd/hip_calls.h"
#include "backend/amd/hip_graphs.h"
#include "backend/amd/sdk_backend.h"
#include "backend/gpu/launches.h"
#include "backend/gpu/records.h"
#include "backend/gpu/tensors.h"
#include "base/environment.h"
#include "base/message.h"
#include "driver/amd_gpus.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"
#include "record/record.h"
#include "record/store/devices.h"
#include "record/thread/captured.h"

static _Atomic uint64_t silent; /* launches without a record, since the start */
static _Atomic bool has_dispatches;

/* ------------------------------------------------------------------ GPUs */

#define GPUS_MAX 64u

/* Used only by the thread of the records. */
static struct {
	uint64_t agent;
	uint32_t device; /* DEVICE_NONE until its first record */
	int ordinal;     /* of HIP; -1: HIP does not show it */
	struct device described;
} gpus[GPUS_MAX];
static size_t gpu_count;

static _Atomic uint64_t seen; /* bits: ordinals of HIP that have had records */

static int collect(int version, const struct sdk_agent **agents, size_t count, void *data)
{
	uint64_t *ids = data;

	for (size_t i = 0; i < count && gpu_count < GPUS_MAX; i++) {
		const struct sdk_agent *agent = agents[i];
		struct device *device = &gpus[gpu_count].described;

		if (agent->size < sizeof(*agent) || agent->type != SDK_AGENT_GPU)
			continue;
		gpus[gpu_count].agent = agent->id;
		gpus[gpu_count].device = DEVICE_NONE;
		*device = (struct device){
			.type = "HIP",
			.id = agent->logical_type_id >= 0 ? (uint32_t)agent->logical_type_id : 0,
			.clock_khz = agent->max_clock_mhz * 1000ull,
			.processors = agent->compute_units,
		};
		snprintf(device->arch, sizeof(device->arch), "%s", agent->name ? agent->name : "");
		snprintf(device->name, sizeof(device->name), "%s",
			 agent->product ? agent->product : "");
		/* KFD's number of the GPU is the lower half of the UUID. */
		memcpy(&ids[gpu_count++], agent->uuid, sizeof(*ids));
	}
	return SDK_OK;
}

/* At the first record: HIP is initialized, and the variables that select devices are final. */
static void find_gpus(void)
{
	uint64_t ids[GPUS_MAX];
	int ordinals[GPUS_MAX];

	if (sdk.query_available_agents(SDK_AGENT_VERSION_0, collect, sizeof(struct sdk_agent),
				       ids) != SDK_OK)
		return;
	amd_gpus_map_visible(ids, gpu_count, amd_gpus_hip_count(), ordinals);
	for (size_t i = 0; i < gpu_count; i++)
		gpus[i].ordinal = ordinals[i];
}

/* HIP knows more of it; but for a GPU that HIP does not show, or without HIP. */
static uint32_t describe(size_t i)
{
	uint32_t device = DEVICE_NONE;

	if (gpus[i].ordinal >= 0 && driver_load_hip(NULL) == PROTON_OK)
		device = gpu_device_of_hip((uint32_t)gpus[i].ordinal);
	if (gpus[i].ordinal >= 0 && gpus[i].ordinal < 64)
		atomic_fetch_or(&seen, 1ull << gpus[i].ordinal);
	return device == DEVICE_NONE ? devices_add(&gpus[i].described) : device;
}

static uint32_t device_of(uint64_t agent)
{
	if (!gpu_count)
		find_gpus();
	for (size_t i = 0; i < gpu_count; i++) {
		if (gpus[i].agent != agent)
			continue;
		if (gpus[i].device == DEVICE_NONE)
			gpus[i].device = describe(i);
		return gpus[i].device;
	}
	return devices_add(&(struct device){.type = "HIP", .name = "(unknown GPU)"});
}

/* Waits for all work on the devices that have had records, and on the calling thread's. */
static bool synchronize(void)
{
	uint64_t devices = atomic_load(&seen);
	/* Graph launches are not counted. */
	bool has_launched = launches_count() || launches_last_shared();
	bool all = true;
	int before = 0;

	if ((!devices && !has_launched) || !hip_functions_find() || !hip.hipDeviceSynchronize ||
	    !hip.hipGetDevice || !hip.hipSetDevice ||
	    hip_clear_error(hip.hipGetDevice(&before)) != 0)
		return true;
	for (int device = 0; device < 64; device++) {
		if (!(devices >> device & 1) && device != before)
			continue;
		if (hip_clear_error(hip.hipSetDevice(device)) != 0 ||
		    hip_clear_error(hip.hipDeviceSynchronize()) != 0)
			all = false;
	}
	if (hip_clear_error(hip.hipSetDevice(before)) != 0)
		all = false;
	return all;
}

/* ------------------------------------------------------------------ records */

static bool read_clock(uint64_t *now_ns)
{
	return sdk.get_timestamp(now_ns) == SDK_OK;
}

static struct execution common(const struct sdk_record *head, const union sdk_external *mine)
{
	return (struct execution){
		.stream = mine->stream,
		.correlation = mine->number,
		.start_ns = record_times_convert(head->start_ns),
		.end_ns = record_times_convert(head->end_ns),
	};
}

/* False if no session was active at the launch. */
static bool is_mine(const struct sdk_record *head, enum counter lost, union sdk_external *out)
{
	out->word = head->external;
	if (out->is_ours)
		return true;
	if (!sdk_callbacks_is_older(head->internal))
		record_count(lost, 1);
	return false;
}

static uint32_t blocks(uint32_t items, uint32_t per_block)
{
	return per_block ? (items + per_block - 1) / per_block : items;
}

static struct launch_config config_of(const struct sdk_dispatch *record,
				      const struct kernel_symbol *symbol)
{
	const struct sdk_dim3 *grid = &record->grid;
	const struct sdk_dim3 *group = &record->workgroup;
	uint32_t fixed = symbol->group_bytes;

	return (struct launch_config){
		.grid = {blocks(grid->x, group->x), blocks(grid->y, group->y),
			 blocks(grid->z, group->z)},
		.block = {group->x, group->y, group->z},
		.registers_per_thread = symbol->registers,
		.static_shared_bytes = fixed,
		.dynamic_shared_bytes = record->group_bytes > fixed ? record->group_bytes - fixed
								    : 0,
	};
}

/* A kernel of the runtime that copies or sets memory is that, and not a kernel of the program. */
static void make_memory_operation(const struct kernel_symbol *symbol,
				  const union sdk_external *mine, struct execution *execution)
{
	execution->is_memory = true;
	execution->is_set = symbol->is_fill;
	execution->config = (struct launch_config){0};
	execution->frame = symbol->is_fill ? memory_operations_set_frame(MEMORY_DEVICE)
					   : hip_copy_frame(COPY_DTOD);
	if (mine->is_of_memory_call && mine->ordinal == 1)
		execution->bytes = sdk_callbacks_bytes(mine->number);
}

static void add_dispatch(const struct sdk_dispatch *record)
{
	struct kernel_symbol symbol = {0};
	struct correlation launch;
	struct execution execution;
	union sdk_external mine;

	if (!is_mine(&record->head, COUNTER_LOST_UNMATCHED, &mine) ||
	    !records_find_kernel(mine.number, 0, &launch)) {
		sdk_pc_sampling_ignore_dispatch(record->dispatch_id);
		return;
	}
	execution = common(&record->head, &mine);
	execution.device = device_of(record->agent);
	execution.frame = kernel_symbols_find(record->kernel_id, &symbol)
				  ? symbol.frame
				  : kernel_symbols_frame(NULL);
	execution.dispatch = record->dispatch_id;
	execution.config = config_of(record, &symbol);
	if (symbol.is_fill || symbol.is_copy)
		make_memory_operation(&symbol, &mine, &execution);
	if (!launch.is_shared ||
	    !hip_replays_add(&launch, mine.ordinal, record->dispatch_id, &execution))
		records_add(&launch, 0, &execution);
	/* Launched like a kernel, by a call that is not watched. */
	if (execution.is_memory && !launch.is_shared)
		await_records_note_complete();
}

static void add_copy(const struct sdk_memory_copy *record)
{
	static const uint8_t kinds[] = {
		[SDK_COPY_NONE] = COPY_UNKNOWN,          [SDK_COPY_HOST_TO_HOST] = COPY_HTOH,
		[SDK_COPY_HOST_TO_DEVICE] = COPY_HTOD,   [SDK_COPY_DEVICE_TO_HOST] = COPY_DTOH,
		[SDK_COPY_DEVICE_TO_DEVICE] = COPY_DTOD,
	};
	uint32_t kind = (uint32_t)record->head.operation;
	struct correlation launch;
	struct execution execution;
	union sdk_external mine;

	if (!is_mine(&record->head, COUNTER_LOST_MEMORY, &mine) ||
	    !records_find_memory(mine.number, &launch))
		return;
	if (kind > SDK_COPY_DEVICE_TO_DEVICE)
		kind = SDK_COPY_NONE;
	execution = common(&record->head, &mine);
	execution.is_memory = true;
	execution.bytes = record->bytes;
	execution.frame = hip_copy_frame(kinds[kind]);
	/* The GPU that did it, which a copy from a GPU to the host has as its source. */
	execution.device =
		device_of(kind == SDK_COPY_DEVICE_TO_HOST ? record->from_agent : record->to_agent);
	if (!hip_replays_add(&launch, mine.ordinal, 0, &execution))
		records_add(&launch, 0, &execution);
}

/* False for a record that is shorter than this backend needs. */
static bool add_record(const struct sdk_record_header *header)
{
	const struct sdk_record *head = header->payload;

	if ((int)header->kind == sdk_kinds.dispatch) {
		if (head->size < offsetof(struct sdk_dispatch, reserved))
			return false;
		add_dispatch((const void *)head);
	} else if ((int)header->kind == sdk_kinds.copy) {
		if (head->size < sizeof(struct sdk_memory_copy))
			return false;
		add_copy((const void *)head);
	}
	return true;
}

void sdk_records_on_buffer(struct sdk_context context, struct sdk_buffer buffer,
			   struct sdk_record_header **headers, size_t count, void *data,
			   uint64_t dropped)
{
	static uint64_t known[2]; /* dropped by each buffer; on the only thread of the records */
	uint64_t *before = &known[buffer.handle == sdk_contexts.copies.handle];
	enum sdk_state state = sdk_state_now();
	uint64_t start_ns;

	if (count && buffer.handle == sdk_contexts.dispatches.handle)
		atomic_store_explicit(&has_dispatches, true, memory_order_relaxed);
	dropped -= *before; /* the library counts from the beginning */
	*before += dropped;
	if (state == SDK_OFF || state == SDK_ORPHANED)
		return;
	start_ns = await_records_begin();
	for (size_t i = 0; i < count; i++)
		if (headers[i]->category == SDK_CATEGORY_TRACING && !add_record(headers[i]))
			dropped++;
	if (dropped)
		await_records_note_dropped(dropped);
	await_records_end(start_ns);
}

static const struct await_vendor vendor = {
	.flush = sdk_contexts_flush,
	.name = "rocprofiler-sdk",
	.cause = "another profiler may have stopped the recording, or the GPU reported an error",
};

void sdk_records_start(void)
{
	atomic_store(&silent, 0);
	atomic_store(&has_dispatches, false);
	record_times_measure(read_clock, CLOCK_BOOTTIME);
	await_records_start(&vendor);
}

/* ------------------------------------------------------------------ flush */

/* HIP dispatches on its own thread: no dispatch happens within the call that launched it. */
static bool is_dispatch_indirect(void)
{
	const char *direct = environment_get("AMD_DIRECT_DISPATCH");

	return direct && strcmp(direct, "0") == 0;
}

/* Launches of which the library will never give a record. An error if there were no others. */
static int report_silent(bool is_only, struct proton_error *err)
{
	static const char text[] =
		"rocprofiler-sdk does not see the queue of %llu kernels, because HIP made it "
		"before Proton had registered; import Proton before the first use of the GPU, or "
		"run the program with the command `proton`";
	uint64_t elsewhere;
	uint64_t count = sdk_callbacks_take_silent(&elsewhere);
	uint64_t all;

	if (elsewhere || (count && is_dispatch_indirect()))
		message_once(is_dispatch_indirect()
				     ? "kernels may appear in the wrong scope: with "
				       "AMD_DIRECT_DISPATCH=0 HIP dispatches them on its own "
				       "thread; remove the variable"
				     : "kernels may appear in the wrong scope: HSA dispatched them "
				       "on another thread than that of their launch; launch on "
				       "streams that threads do not share, or set "
				       "GPU_MAX_HW_QUEUES to the number of streams");
	if (is_dispatch_indirect())
		return PROTON_OK;
	record_count(COUNTER_LOST_MISSING, count);
	all = atomic_fetch_add(&silent, count) + count;
	if (is_only && all)
		return err_set(err, PROTON_E_STATE, text, (unsigned long long)all);
	if (count)
		message_once(text, (unsigned long long)count);
	return PROTON_OK;
}

int sdk_records_flush(struct proton_error *err)
{
	uint64_t launched = launches_count();
	uint32_t last_shared = launches_last_shared();
	/* sdk_register.c has flushed the buffers at the end of the library. */
	bool is_over = sdk_state_now() == SDK_ENDED;
	bool in_doubt = is_over;
	int status, result;

	/* Waiting for a device while a stream captures may end the capture. */
	if (!in_doubt && !captured_any_open())
		in_doubt = !synchronize();
	tensors_collect();
	result = await_records_flush(launched, last_shared, in_doubt);
	if (is_over || !captured_any_open())
		hip_replays_settle(last_shared);
	tensors_settle();
	status = report_silent(!launched && !atomic_load(&has_dispatches), err);
	return result == SDK_OK ? status : sdk_api_status(result, "rocprofiler_flush_buffer", err);
}
