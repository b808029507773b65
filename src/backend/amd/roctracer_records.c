/*
 * roctracer records: kernels, copies and fills that HIP has finished, in the order in which they
 * ended. Each is matched to its launch and added.
 *
 * roctracer constraints:
 *
 * - A pool has two buffers and a thread that calls back for each full one, with a lock held. HIP
 *   waits for it if the other buffer fills up too; so nothing is lost, and the callback must not
 *   wait for the GPU.
 * - Kernel names are in the buffer: they are valid in the callback only.
 * - Work that ends after its operation was disabled may still be written to the pool, so a pool is
 *   never closed. The next session uses it again.
 */
#include <pthread.h>

#include "backend/amd/hip_calls.h"
#include "backend/amd/hip_graphs.h"
#include "backend/amd/roctracer_api.h"
#include "backend/gpu/records.h"
#include "base/message.h"
#include "driver/amd_gpus.h"
#include "driver/driver.h"
#include "record/names/frames.h"
#include "record/record.h"

#define NODES_MAX 1024u

static _Atomic(void *) pool; /* changed under the lock of the backend */
static size_t pool_bytes;
static _Atomic bool clocks_are_compared; /* since the start */

/* ------------------------------------------------------------------ times */

static bool read_clock(uint64_t *now_ns)
{
	return libroctracer.roctracer_get_timestamp(now_ns) == ROCTRACER_OK;
}

/* Work has run, so HSA has its clock, which counts like CLOCK_BOOTTIME, with time asleep. */
static void compare_clocks(void)
{
	if (!atomic_exchange_explicit(&clocks_are_compared, true, memory_order_relaxed))
		record_times_measure(read_clock, CLOCK_BOOTTIME);
}

/* ------------------------------------------------------------------ configurations of launches */

#define SLOTS 65536u /* launches in flight; 2 MiB, touched when used */

/* A newer launch may overwrite a slot at any time; `number` is 0 then (a sequence lock). */
static struct slot {
	_Atomic uint32_t number;
	_Atomic uint32_t shared_bytes;
	_Atomic uint64_t sizes[3]; /* uint32_t grid[3], block[3] */
} slots[SLOTS];

void roctracer_records_keep(uint32_t correlation, const uint64_t sizes[static 3],
			    uint32_t shared_bytes)
{
	struct slot *slot = &slots[correlation % SLOTS];

	atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
	/* release: a reader of a new word does not see an old number */
	atomic_thread_fence(memory_order_release);
	for (int i = 0; i < 3; i++)
		atomic_store_explicit(&slot->sizes[i], sizes[i], memory_order_relaxed);
	atomic_store_explicit(&slot->shared_bytes, shared_bytes, memory_order_relaxed);
	/* release: pairs with the first load of find_config() */
	atomic_store_explicit(&slot->number, correlation, memory_order_release);
}

/* Nothing is written if it is not known, or if too many launches were in flight since. */
static void find_config(uint32_t correlation, struct launch_config *config_out)
{
	struct slot *slot = &slots[correlation % SLOTS];
	struct launch_config config = {.registers_per_thread = 0};
	uint64_t sizes[3];

	if (atomic_load_explicit(&slot->number, memory_order_acquire) != correlation)
		return;
	for (int i = 0; i < 3; i++)
		sizes[i] = atomic_load_explicit(&slot->sizes[i], memory_order_relaxed);
	config.dynamic_shared_bytes =
		atomic_load_explicit(&slot->shared_bytes, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->number, memory_order_relaxed) != correlation)
		return;
	memcpy(config.grid, sizes, sizeof(config.grid));
	memcpy(config.block, (const char *)sizes + sizeof(config.grid), sizeof(config.block));
	*config_out = config;
}

/* ------------------------------------------------------------------ records */

static uint32_t device_of(int node)
{
	static int ordinals[NODES_MAX]; /* + 2; 0: not asked for yet */
	int ordinal;

	if (node < 0 || (uint32_t)node >= NODES_MAX)
		return gpu_device_of_hip(0);
	if (!ordinals[node])
		ordinals[node] = amd_gpus_ordinal_of_node((uint32_t)node) + 2;
	ordinal = ordinals[node] - 2;
	/* The topology cannot be read: the devices are at least kept apart. */
	return gpu_device_of_hip((uint32_t)(ordinal < 0 ? node : ordinal));
}

static struct execution execution_of(const struct roctracer_record *record)
{
	return (struct execution){
		.device = device_of(record->device_id),
		.stream = (uint32_t)record->queue_id,
		.correlation = (uint32_t)record->correlation_id,
		.start_ns = record_times_convert(record->begin_ns),
		.end_ns = record_times_convert(record->end_ns),
	};
}

/* Work of a graph belongs where it was captured, if that is known. */
static void add_record(const struct correlation *launch, struct execution *execution)
{
	if (!launch->is_shared || !hip_replays_add(launch, 0, 0, execution))
		records_add(launch, 0, execution);
}

static void add_kernel(const struct roctracer_record *record)
{
	struct correlation launch;
	struct execution execution;

	if (!record->correlation_id) { /* launched by a call that this version does not know */
		await_records_note();
		record_count(COUNTER_LOST_UNMATCHED, 1);
		return;
	}
	if (!records_find_kernel((uint32_t)record->correlation_id, 0, &launch))
		return;
	execution = execution_of(record);
	execution.frame = kernel_symbols_frame(record->kernel_name);
	find_config((uint32_t)record->correlation_id, &execution.config);
	add_record(&launch, &execution);
}

static uint32_t memory_frame(uint32_t kind)
{
	switch (kind) {
	case ROCTRACER_COMMAND_HTOD:
	case ROCTRACER_COMMAND_HTOD_RECT:
		return hip_copy_frame(COPY_HTOD);
	case ROCTRACER_COMMAND_DTOH:
	case ROCTRACER_COMMAND_DTOH_RECT:
		return hip_copy_frame(COPY_DTOH);
	case ROCTRACER_COMMAND_DTOD:
	case ROCTRACER_COMMAND_DTOD_RECT:
		return hip_copy_frame(COPY_DTOD);
	case ROCTRACER_COMMAND_FILL:
		return memory_operations_set_frame(MEMORY_DEVICE);
	default: /* of images */
		return hip_copy_frame(COPY_UNKNOWN);
	}
}

/* Copies without a launch are HIP's own, for example of code objects. */
static void add_memory(const struct roctracer_record *record)
{
	struct correlation launch;
	struct execution execution;

	if (!record->correlation_id ||
	    !records_find_memory((uint32_t)record->correlation_id, &launch))
		return;
	execution = execution_of(record);
	execution.frame = memory_frame(record->kind);
	execution.is_memory = true;
	execution.is_set = record->kind == ROCTRACER_COMMAND_FILL;
	execution.bytes = record->bytes;
	add_record(&launch, &execution);
}

static void on_buffer(const char *begin, const char *end, void *user)
{
	const struct roctracer_record *record = (const void *)begin;
	uint64_t start_ns = await_records_begin();

	compare_clocks();
	while ((const char *)record + sizeof(*record) <= end) {
		const struct roctracer_record *next = NULL;

		if (record->domain == ROCTRACER_DOMAIN_HIP_OPS &&
		    record->op == ROCTRACER_OP_DISPATCH)
			add_kernel(record);
		else if (record->domain == ROCTRACER_DOMAIN_HIP_OPS &&
			 record->op == ROCTRACER_OP_COPY)
			add_memory(record);
		if (libroctracer.roctracer_next_record(record, &next) != ROCTRACER_OK ||
		    next <= record) {
			await_records_note_dropped(1); /* at least: the rest cannot be read */
			break;
		}
		record = next;
	}
	await_records_end(start_ns);
}

/* ------------------------------------------------------------------ pool */

static int open_pool(struct proton_error *err)
{
	struct roctracer_properties properties = {
		.buffer_bytes = records_buffer_bytes(),
		.on_buffer = on_buffer,
	};
	void *made = NULL;
	int result;

	if (pool && pool_bytes == properties.buffer_bytes)
		return PROTON_OK;
	result = libroctracer.roctracer_open_pool_expl(&properties, &made);
	if (result == ROCTRACER_OK && !made)
		result = ROCTRACER_E_NO_POOL;
	if (result != ROCTRACER_OK)
		return roctracer_api_status(result, "roctracer_open_pool_expl", err);
	pool = made;
	pool_bytes = properties.buffer_bytes;
	return PROTON_OK;
}

static int enable_records(uint32_t op, struct proton_error *err)
{
	int result =
		libroctracer.roctracer_enable_op_activity_expl(ROCTRACER_DOMAIN_HIP_OPS, op, pool);

	return roctracer_api_status(result, "roctracer_enable_op_activity_expl", err);
}

static void disable(uint32_t op)
{
	int result = libroctracer.roctracer_disable_op_activity(ROCTRACER_DOMAIN_HIP_OPS, op);

	if (result != ROCTRACER_OK)
		message("cannot disable roctracer records (roctracer_disable_op_activity: error "
			"%d); their overhead remains",
			result);
}

int roctracer_records_start(struct proton_error *err)
{
	int status = open_pool(err);

	atomic_store(&clocks_are_compared, false);
	return status == PROTON_OK ? enable_records(ROCTRACER_OP_DISPATCH, err) : status;
}

void roctracer_records_stop(void)
{
	disable(ROCTRACER_OP_DISPATCH);
	disable(ROCTRACER_OP_COPY);
}

int roctracer_records_set_memory(bool is_wanted, struct proton_error *err)
{
	if (is_wanted)
		return enable_records(ROCTRACER_OP_COPY, err);
	disable(ROCTRACER_OP_COPY);
	return PROTON_OK;
}

/* Without a pool: a launching thread asks while the first session starts. */
int roctracer_records_flush(void)
{
	void *now = atomic_load(&pool);

	return now ? libroctracer.roctracer_flush_activity_expl(now) : ROCTRACER_OK;
}

void roctracer_records_forget(void)
{
	pool = NULL;
}
