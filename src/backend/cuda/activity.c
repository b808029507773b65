/*
 * CUPTI activity records: CUPTI fills buffers from a pool with records and returns them on its own
 * thread, in no particular order. Each record is matched to its launch and added.
 *
 * CUPTI constraints:
 *
 * - The buffer-requested callback runs on the application's thread, so buffers come from a pool.
 *   Zeroed buffers save CUPTI a memset.
 * - A flush is not a fence: a buffer may arrive a moment after it returns.
 * - A forced flush returns the records of kernels that are still running, with end time 0, and
 *   never again. Only the end of all sessions may force.
 * - No lock except flush_lock is held while CUPTI is called.
 */

#include "backend/cuda/activity.h"
#include "backend/cuda/callbacks.h"
#include "backend/cuda/interface.h"
#include "backend/cuda/kernel_times.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/record_fields.h"
#include "backend/cuda/sampling_hooks.h"
#include "backend/gpu/captured_nodes.h"
#include "backend/gpu/records.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/message.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "record/names/frames.h"
#include "record/record.h"

#define POOL_MAX 32u

/* Since when records are enabled; 0: for the first time since CUPTI was attached. */
static _Atomic uint64_t enabled_ns;
static _Atomic bool is_in_window;
static _Atomic uint64_t graph_kernels;

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static size_t buffer_bytes;
static uint8_t *pool[POOL_MAX]; /* of buffer_bytes each */
static uint32_t pool_count;
static uint8_t **lent; /* buffers that CUPTI has */
static size_t lent_count;
static size_t lent_capacity;

/* Registers a buffer given to CUPTI, which may also return buffers of another tool. */
static bool lend_buffer(uint8_t *buffer)
{
	MUTEX_HOLD(&pool_lock);
	bool done = array_reserve(&lent, &lent_capacity, lent_count + 1, sizeof(*lent));
	if (done)
		lent[lent_count++] = buffer;
	return done;
}

static bool is_back(const uint8_t *buffer)
{
	bool found = false;

	MUTEX_HOLD(&pool_lock);
	for (size_t i = lent_count; i-- > 0 && !found;) {
		if (lent[i] != buffer)
			continue;
		lent[i] = lent[--lent_count];
		found = true;
	}
	return found;
}

static bool has_lent(void)
{
	MUTEX_HOLD(&pool_lock);
	return lent_count;
}

static uint8_t *new_buffer(size_t bytes)
{
	void *buffer = NULL;

	if (posix_memalign(&buffer, 4096, bytes) != 0)
		return NULL;
	return memset(buffer, 0, bytes);
}

/* NULL if there is none; *bytes is the current buffer size in any case. */
static uint8_t *from_pool(size_t *bytes)
{
	uint8_t *buffer = NULL;

	MUTEX_HOLD(&pool_lock);
	*bytes = buffer_bytes;
	if (pool_count)
		buffer = pool[--pool_count];
	return buffer;
}

/* The variable may have changed since earlier sessions, which makes their buffers useless. */
static void set_buffer_bytes(size_t bytes)
{
	MUTEX_HOLD(&pool_lock);
	while (bytes != buffer_bytes && pool_count)
		free(pool[--pool_count]);
	buffer_bytes = bytes;
}

/* Out of memory: CUPTI 12.9 takes NULL, and drops records. Earlier ones get scratch memory. */
static void give_no_buffer(uint8_t **buffer, size_t *bytes)
{
	static uint8_t nowhere[RECORDS_BUFFER_MIN_BYTES] __attribute__((aligned(8)));

	await_records_note_refused();
	*buffer = libcupti.version < CUPTI_VERSION_NULL_BUFFER ? nowhere : NULL;
	*bytes = *buffer ? sizeof(nowhere) : 0;
	if (*buffer)
		await_records_note_dropped(1); /* CUPTI counts the records it drops */
}

static void on_buffer_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	*max_records = 0;
	if (cupti_is_orphaned()) {
		give_no_buffer(buffer, bytes);
		return;
	}
	*buffer = from_pool(bytes);
	if (!*buffer)
		*buffer = new_buffer(*bytes);
	if (*buffer && !lend_buffer(*buffer)) {
		free(*buffer);
		*buffer = NULL;
	}
	if (!*buffer)
		give_no_buffer(buffer, bytes);
}

static void give_back(uint8_t *buffer, size_t bytes, size_t used_bytes)
{
	memset(buffer, 0, used_bytes);
	pthread_mutex_lock(&pool_lock);
	if (pool_count < POOL_MAX && bytes == buffer_bytes) {
		pool[pool_count++] = buffer;
		buffer = NULL;
	}
	pthread_mutex_unlock(&pool_lock);
	free(buffer);
}

/*
 * CUPTI converts GPU times to a CPU clock. By default that is CLOCK_REALTIME, which jumps; another
 * one can be set before the first activity is enabled. If CUPTI does not accept it, the difference
 * of both clocks is added to every time. If another tool in the process sets its own clock in
 * CUPTI, kernels are shifted in traces; durations stay correct.
 */
static uint64_t read_clock(void)
{
	return clock_monotonic_ns();
}

#define NAME_CACHE 1024u

static struct {
	const char *name;
	uint32_t frame;
} name_cache[NAME_CACHE];

/* The frame of a name, by the address at which the library keeps it once. */
static uint32_t frame_of_name(const char *name)
{
	if (!name)
		name = "(unnamed kernel)";
	size_t slot = hash_u64((uintptr_t)name) % NAME_CACHE;

	if (name_cache[slot].name != name) {
		name_cache[slot].name = name;
		name_cache[slot].frame = frames_add(FRAME_KERNEL, name, strlen(name));
	}
	return name_cache[slot].frame;
}

/* The library may have used an address for another name since the last session. */
static void clear_names(void)
{
	memset(name_cache, 0, sizeof(name_cache));
}

static struct execution execution_of(const struct cupti_kernel *kernel)
{
	struct execution execution = {
		.frame = frame_of_name(kernel->name),
		.device = gpu_device_of_cuda(kernel->device_id),
		.stream = kernel->stream_id,
		.correlation = kernel->correlation_id,
		.start_ns = record_times_convert(kernel->start_ns),
		.end_ns = record_times_convert(kernel->end_ns),
		.config = {.registers_per_thread = kernel->registers_per_thread,
			   .static_shared_bytes = (uint32_t)kernel->static_shared_bytes,
			   .dynamic_shared_bytes = (uint32_t)kernel->dynamic_shared_bytes},
	};

	for (int i = 0; i < 3; i++) {
		execution.config.grid[i] = (uint32_t)kernel->grid[i];
		execution.config.block[i] = (uint32_t)kernel->block[i];
	}
	return execution;
}

/* A graph replayed while records were enabled starts too early (measured: 14 ms for 25 us). */
static bool is_stale(const struct execution *execution)
{
	return execution->start_ns &&
	       execution->start_ns < atomic_load_explicit(&enabled_ns, memory_order_relaxed);
}

static void add_kernel(const struct cupti_kernel *kernel)
{
	const struct sampling_hooks *hooks = sampling_hooks_get();
	struct correlation launch;

	if (!records_find_kernel(kernel->correlation_id, kernel->graph_node_id, &launch))
		return;
	if (hooks->drops && !launch.is_shared && hooks->drops(kernel)) {
		await_records_note_complete();
		return;
	}
	struct execution execution = execution_of(kernel);
	if (!execution.start_ns || execution.end_ns < execution.start_ns)
		kernel_times_note_missing();
	if (kernel->graph_node_id) {
		atomic_fetch_add_explicit(&graph_kernels, 1, memory_order_relaxed);
		if (is_stale(&execution) && atomic_load(&is_in_window)) {
			record_count(COUNTER_STALE, 1);
			return;
		}
		if (is_stale(&execution))
			execution.start_ns = 0; /* counted as a kernel without times */
	}
	uint64_t node = launch.is_shared ? kernel->graph_node_id : 0;
	if (hooks->attribute && execution.start_ns && execution.end_ns > execution.start_ns)
		hooks->attribute(kernel, node ? captured_nodes_crc(node) : 0, &execution);
	records_add(&launch, node, &execution);
}

static void add_memory(const struct cupti_activity *record)
{
	struct memory_operation operation;
	struct correlation launch;

	if (!memory_read(record, &operation) ||
	    !records_find_memory(operation.execution.correlation, &launch))
		return;
	operation.execution.start_ns = record_times_convert(operation.execution.start_ns);
	operation.execution.end_ns = record_times_convert(operation.execution.end_ns);
	records_add(&launch, operation.graph_node_id, &operation.execution);
}

/* Adds each record of a buffer. False if CUPTI cannot read its own buffer to the end. */
static bool read_records(uint8_t *buffer, size_t valid_bytes)
{
	struct cupti_activity *record = NULL;
	int result;

	while ((result = libcupti.cuptiActivityGetNextRecord(buffer, valid_bytes, &record)) ==
	       CUPTI_OK) {
		if (record->kind == CUPTI_KIND_CONCURRENT_KERNEL)
			add_kernel((const void *)record);
		else
			add_memory(record);
	}
	return result == CUPTI_E_MAX_LIMIT_REACHED;
}

static void finish_buffer(uint8_t *buffer, size_t bytes, size_t valid_bytes, bool is_read)
{
	size_t dropped = 0;

	if (!is_read)
		await_records_note_dropped(1);
	if (interface_dropped(&dropped) == CUPTI_OK && dropped)
		await_records_note_dropped(dropped);
	give_back(buffer, bytes, valid_bytes);
}

static void on_buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
				size_t valid_bytes)
{
	if (!buffer || cupti_is_orphaned() || !is_back(buffer))
		return;
	uint64_t start_ns = await_records_begin();
	finish_buffer(buffer, bytes, valid_bytes,
		      !valid_bytes || read_records(buffer, valid_bytes));
	await_records_end(start_ns);
}

/* ------------------------------------------------------------------ the second interface */

static void on_buffer_requested_2(uint8_t **buffer, size_t *bytes, size_t *max_records,
				  const void *info)
{
	on_buffer_requested(buffer, bytes, max_records);
}

static const int selected_kinds[] = {CUPTI_KIND_CONCURRENT_KERNEL, CUPTI_KIND_MEMCPY,
				     CUPTI_KIND_MEMSET, CUPTI_KIND_MEMCPY_PEER};

/* Index in selected_kinds. */
static size_t index_of(uint32_t kind)
{
	size_t i = 0;

	while (i < ARRAY_LENGTH(selected_kinds) && (uint32_t)selected_kinds[i] != kind)
		i++;
	return i;
}

/* Layouts are by kind. False if no kind has a layout that can be read. */
static bool plan_records(const struct cupti_complete_info *info, struct record_plan *plans)
{
	bool has_any = false;

	for (size_t i = 0; i < ARRAY_LENGTH(selected_kinds); i++) {
		size_t kind = (size_t)selected_kinds[i];

		plans[i].count = 0;
		if (info && info->size >= sizeof(*info) && info->layouts &&
		    kind < info->layout_count)
			has_any |= record_fields_plan(selected_kinds[i], info->layouts[kind],
						      &plans[i]);
	}
	return has_any;
}

/*
 * A record of a graph's node has the id of the node from which that one was made or last updated,
 * from CUPTI 13.4 on. It is right also if Proton has not seen the instantiation, and for a replay
 * before an update if its records arrive after the update.
 */
static void add_selected(struct record_values *values)
{
	struct cupti_kernel *kernel = &values->as.kernel;

	if (kernel->kind != CUPTI_KIND_CONCURRENT_KERNEL) {
		add_memory(&values->as.any);
		return;
	}
	if (values->source_node_id && kernel->graph_node_id)
		kernel->graph_node_id =
			captured_nodes_origin(kernel->graph_node_id, values->source_node_id);
	add_kernel(kernel);
}

/* As read_records(), of records in the layouts of `info`. */
static bool read_selected(uint8_t *buffer, size_t valid_bytes,
			  const struct cupti_complete_info *info)
{
	struct record_plan plans[ARRAY_LENGTH(selected_kinds)];
	struct record_values values[ARRAY_LENGTH(selected_kinds)];
	struct cupti_activity *record = NULL;
	bool is_whole = true;
	int result;

	if (!plan_records(info, plans))
		return false;
	memset(values, 0, sizeof(values));
	while ((result = interface_next(buffer, valid_bytes, &record)) == CUPTI_OK) {
		size_t i = index_of(record->kind);

		if (i == ARRAY_LENGTH(selected_kinds))
			continue;
		if (!plans[i].count) {
			is_whole = false;
			continue;
		}
		record_fields_read(&plans[i], record, &values[i]);
		add_selected(&values[i]);
	}
	return is_whole && result == CUPTI_E_MAX_LIMIT_REACHED;
}

static void on_buffer_completed_2(uint8_t *buffer, size_t bytes, size_t valid_bytes,
				  const struct cupti_complete_info *info)
{
	if (!buffer || cupti_is_orphaned() || !is_back(buffer))
		return;
	uint64_t start_ns = await_records_begin();
	finish_buffer(buffer, bytes, valid_bytes,
		      !valid_bytes || read_selected(buffer, valid_bytes, info));
	await_records_end(start_ns);
}

static int flush_buffers(void)
{
	return libcupti.cuptiActivityFlushAll(0);
}

/* If there was no buffer to return, CUPTI has not reported this count yet. */
static uint64_t take_dropped(void)
{
	size_t dropped = 0;

	if (interface_dropped(&dropped) != CUPTI_OK)
		return 0;
	return dropped;
}

static const struct await_vendor vendor = {
	.flush = flush_buffers,
	.take_dropped = take_dropped,
	.has_buffers = has_lent,
	.name = "CUPTI",
	.cause = "another tool in this process (torch.profiler?) may have taken over CUPTI's "
		 "buffers, or the GPU reported an error",
};

int activity_start(bool is_again, bool is_window, struct proton_error *err)
{
	static const struct interface_buffers buffers = {
		on_buffer_requested,
		on_buffer_completed,
		on_buffer_requested_2,
		on_buffer_completed_2,
	};
	bool has_clock = false;

	set_buffer_bytes(records_buffer_bytes());
	clear_names();
	await_records_start(&vendor);
	TRY(interface_register(&buffers, read_clock, &has_clock, err));
	if (has_clock)
		record_times_are_ours();
	else
		record_times_measure(interface_timestamp, CLOCK_REALTIME);
	atomic_store(&enabled_ns, is_again || is_window ? clock_monotonic_ns() : 0);
	atomic_store(&is_in_window, is_window);
	atomic_store(&graph_kernels, 0);
	int result = interface_enable(CUPTI_KIND_CONCURRENT_KERNEL);
	if (result != CUPTI_OK)
		return interface_enable_error(result, err);
	return PROTON_OK;
}

int activity_flush(uint64_t launched, uint32_t last_shared, bool in_doubt, struct proton_error *err)
{
	int failure = await_records_flush(launched, last_shared, in_doubt);

	return failure == CUPTI_OK ? PROTON_OK
				   : cupti_api_error(failure, "cuptiActivityFlushAll", err);
}

/* Records end first: CUPTI then keeps no buffer. No graph may be replayed until it is left. */
bool activity_stop(bool is_last)
{
	int result = interface_disable(CUPTI_KIND_CONCURRENT_KERNEL);

	if (result == INTERFACE_E_CHANGING)
		message_once("CUPTI's kernel records stay on after recording has ended, because "
			     "other threads capture CUDA graphs, or load modules or create "
			     "contexts, all the time; they are ended after the next session");
	else if (result != CUPTI_OK && !callbacks_were_ended())
		message("cannot disable CUPTI kernel activity (cuptiActivityDisable: error %d); "
			"its overhead remains",
			result);
	if (result != INTERFACE_E_CHANGING || is_last)
		await_records_stop();
	libcupti.cuptiActivityFlushAll(is_last ? CUPTI_FLUSH_FORCED : 0);
	if (is_last)
		interface_leave();
	kernel_times_check();
	return result != INTERFACE_E_CHANGING;
}

uint64_t activity_graph_kernels(void)
{
	return atomic_load_explicit(&graph_kernels, memory_order_relaxed);
}
