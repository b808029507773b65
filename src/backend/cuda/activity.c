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
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/graphs.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/pc_sampling.h"
#include "backend/cuda/tensors.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/message.h"
#include "driver/gpu_device.h"
#include "record/names/frames.h"
#include "record/record.h"
#include "record/thread/correlate.h"

#define BUFFER_DEFAULT_BYTES (4u << 20) /* CUPTI recommends 1 to 10 MB */
#define BUFFER_MIN_BYTES (64u << 10)
#define POOL_MAX 32u
#define NAME_CACHE 1024u
#define FLUSH_LIMIT_NS 5000000000ull
#define DOUBT_LIMIT_NS 200000000ull
#define TAKEN_LIMIT_NS 1000000000ull
#define QUIET_NS 5000000ull

static _Atomic uint64_t clock_offset_ns; /* added to CUPTI's times; wraps */

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static size_t buffer_bytes;
static uint8_t *pool[POOL_MAX]; /* of buffer_bytes each */
static uint32_t pool_count;
static uint8_t **lent; /* buffers that CUPTI has */
static size_t lent_count;
static size_t lent_capacity;

/*
 * Guards the next two. One flush at a time: a flush that starts during another one would return at
 * once, and take the records that the other is still receiving for the last.
 */
static pthread_mutex_t flush_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t given_up; /* launches that never received a record */
static bool missing_was_noted;

static _Atomic uint64_t completed;       /* launches that received their record */
static _Atomic uint64_t dropped_records; /* as counted by CUPTI, plus unreadable buffers */
static _Atomic uint32_t newest_shared;   /* the launch of the newest record of a graph launch */
static _Atomic bool was_refused;         /* CUPTI asked for a buffer when memory was out */
static _Atomic uint64_t processed;       /* records, including those of graphs */
static _Atomic uint64_t cost_ns;         /* CPU time of CUPTI's thread in this backend */

/* Kernel names by address: CUPTI keeps each name once. Used only by the record thread. */
static struct {
	const char *name;
	uint32_t frame;
} name_cache[NAME_CACHE];

static size_t choose_buffer_bytes(void)
{
	const char *text = getenv("TRITON_PROFILE_BUFFER_SIZE");
	long long wanted = text ? strtoll(text, NULL, 10) : 0;

	if (wanted <= 0)
		return BUFFER_DEFAULT_BYTES;
	if (wanted < BUFFER_MIN_BYTES)
		wanted = BUFFER_MIN_BYTES;
	return ((size_t)wanted + 4095) & ~(size_t)4095;
}

/*
 * Registers a buffer given to CUPTI. CUPTI may also return buffers of another tool, which
 * registered its functions earlier; those must not be touched.
 */
static bool lend(uint8_t *buffer)
{
	bool done;

	pthread_mutex_lock(&pool_lock);
	done = array_reserve(&lent, &lent_capacity, lent_count + 1, sizeof(*lent));
	if (done)
		lent[lent_count++] = buffer;
	pthread_mutex_unlock(&pool_lock);
	return done;
}

static bool is_back(const uint8_t *buffer)
{
	bool found = false;

	pthread_mutex_lock(&pool_lock);
	for (size_t i = lent_count; i-- > 0 && !found;) {
		if (lent[i] != buffer)
			continue;
		lent[i] = lent[--lent_count];
		found = true;
	}
	pthread_mutex_unlock(&pool_lock);
	return found;
}

static bool has_lent(void)
{
	bool has;

	pthread_mutex_lock(&pool_lock);
	has = lent_count;
	pthread_mutex_unlock(&pool_lock);
	return has;
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

	pthread_mutex_lock(&pool_lock);
	*bytes = buffer_bytes;
	if (pool_count)
		buffer = pool[--pool_count];
	pthread_mutex_unlock(&pool_lock);
	return buffer;
}

/* The variable may have changed since earlier sessions, which makes their buffers useless. */
static void set_buffer_bytes(size_t bytes)
{
	pthread_mutex_lock(&pool_lock);
	while (bytes != buffer_bytes && pool_count)
		free(pool[--pool_count]);
	buffer_bytes = bytes;
	pthread_mutex_unlock(&pool_lock);
}

static void drop(uint64_t count)
{
	atomic_fetch_add_explicit(&dropped_records, count, memory_order_relaxed);
	record_count(COUNTER_LOST_DROPPED, count);
}

/*
 * Out of memory: CUPTI 12.9 and later accept NULL and drop the records. Earlier versions crash, so
 * they get scratch memory that is never read.
 */
static void refuse(uint8_t **buffer, size_t *bytes)
{
	static uint8_t nowhere[BUFFER_MIN_BYTES] __attribute__((aligned(8)));

	atomic_store_explicit(&was_refused, true, memory_order_relaxed);
	*buffer = libcupti.version < CUPTI_VERSION_NULL_BUFFER ? nowhere : NULL;
	*bytes = *buffer ? sizeof(nowhere) : 0;
	if (*buffer)
		drop(1); /* CUPTI counts the records it drops */
}

static void on_buffer_requested(uint8_t **buffer, size_t *bytes, size_t *max_records)
{
	*max_records = 0;
	if (cuda_is_orphaned()) {
		refuse(buffer, bytes);
		return;
	}
	*buffer = from_pool(bytes);
	if (!*buffer)
		*buffer = new_buffer(*bytes);
	if (*buffer && !lend(*buffer)) {
		free(*buffer);
		*buffer = NULL;
	}
	if (!*buffer)
		refuse(buffer, bytes);
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

/* The best of several tries: the shortest interval around CUPTI's timestamp. */
static uint64_t measure_offset(void)
{
	uint64_t offset_ns = clock_monotonic_ns() - clock_real_ns();
	uint64_t best_ns = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before_ns = clock_monotonic_ns();
		uint64_t theirs_ns = 0;
		uint64_t taken_ns;

		if (libcupti.cuptiGetTimestamp(&theirs_ns) != CUPTI_OK || !theirs_ns)
			break;
		taken_ns = clock_monotonic_ns() - before_ns;
		if (taken_ns < best_ns) {
			best_ns = taken_ns;
			offset_ns = before_ns + taken_ns / 2 - theirs_ns;
		}
	}
	return offset_ns;
}

/* Converts the time of a record to clock_monotonic_ns(); 0 stays "unknown". */
static uint64_t to_monotonic(uint64_t cupti_ns)
{
	return cupti_ns ? cupti_ns + atomic_load_explicit(&clock_offset_ns, memory_order_relaxed)
			: 0;
}

static uint32_t frame_of(const char *name)
{
	size_t slot;

	if (!name)
		name = "(unnamed kernel)";
	slot = hash_u64((uintptr_t)name) % NAME_CACHE;

	if (name_cache[slot].name != name) {
		name_cache[slot].name = name;
		name_cache[slot].frame = frames_add(FRAME_KERNEL, name, strlen(name));
	}
	return name_cache[slot].frame;
}

static struct execution execution_of(const struct cupti_kernel *kernel)
{
	struct execution execution = {
		.frame = frame_of(kernel->name),
		.device = gpu_device_of_cuda(kernel->device_id),
		.stream = kernel->stream_id,
		.correlation = kernel->correlation_id,
		.start_ns = to_monotonic(kernel->start_ns),
		.end_ns = to_monotonic(kernel->end_ns),
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

/* False for invalid times: they are counted by cause and never added to a sum. */
static bool check_times(uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns && end_ns > start_ns)
		return true;
	record_count(start_ns && end_ns ? COUNTER_LOST_TIME : COUNTER_LOST_NO_TIME, 1);
	return false;
}

static void add_kernel(const struct cupti_kernel *kernel)
{
	struct correlation launch;
	struct execution execution;

	atomic_fetch_add_explicit(&processed, 1, memory_order_relaxed);
	if (!correlate_take(kernel->correlation_id, &launch)) {
		if (!callbacks_is_older(kernel->correlation_id))
			record_count(COUNTER_LOST_UNMATCHED, 1);
		return;
	}
	/*
	 * Every session was paused. But a node may have read a value, which must not go to the next
	 * replay.
	 */
	if (proton_context_is_empty(launch.where) && !(launch.is_shared && kernel->graph_node_id))
		return;
	if (!launch.is_shared)
		atomic_fetch_add_explicit(&completed, 1, memory_order_relaxed);
	execution = execution_of(kernel);
	/* An append kernel of Proton is only recorded to show that it ran. */
	if (execution.frame != tensors_kernel_frame() &&
	    !check_times(kernel->start_ns, kernel->end_ns))
		return;
	if (pc_sampling_runs() && !(launch.is_shared && kernel->graph_node_id))
		pcs_modules_attribute(kernel, 0, &execution);
	execution.launch = launch.launch;
	execution.is_of_graph = launch.is_shared && kernel->graph_node_id;
	if (launch.is_shared)
		atomic_store_explicit(&newest_shared, kernel->correlation_id, memory_order_relaxed);
	if (launch.is_shared && kernel->graph_node_id) {
		if (pc_sampling_runs())
			pcs_modules_attribute(kernel, graphs_crc(kernel->graph_node_id),
					      &execution);
		graphs_record(launch.where, kernel->graph_node_id, &execution);
		return;
	}
	if (launch.is_named)
		execution.frame = 0;
	record_kernel(launch.where, &execution);
}

static void add_memory(const struct cupti_activity *record)
{
	struct memory_operation operation;
	struct correlation launch;

	if (!memory_read(record, &operation))
		return;
	atomic_fetch_add_explicit(&processed, 1, memory_order_relaxed);
	if (!correlate_take(operation.execution.correlation, &launch)) {
		if (!callbacks_is_older(operation.execution.correlation))
			record_count(COUNTER_LOST_MEMORY, 1);
		return;
	}
	atomic_store_explicit(&newest_shared, operation.execution.correlation,
			      memory_order_relaxed);
	if (proton_context_is_empty(launch.where) ||
	    !check_times(operation.execution.start_ns, operation.execution.end_ns))
		return;
	operation.execution.start_ns = to_monotonic(operation.execution.start_ns);
	operation.execution.end_ns = to_monotonic(operation.execution.end_ns);
	operation.execution.launch = launch.launch;
	operation.execution.is_of_graph = operation.graph_node_id != 0;
	if (operation.graph_node_id)
		graphs_record(launch.where, operation.graph_node_id, &operation.execution);
	else
		record_kernel(launch.where, &operation.execution);
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

static void on_buffer_completed(void *context, uint32_t stream, uint8_t *buffer, size_t bytes,
				size_t valid_bytes)
{
	uint64_t start_ns = clock_thread_ns();
	size_t dropped = 0;

	if (!buffer || cuda_is_orphaned() || !is_back(buffer))
		return;
	if (valid_bytes && !read_records(buffer, valid_bytes))
		drop(1);
	if (libcupti.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_OK &&
	    dropped)
		drop(dropped);
	give_back(buffer, bytes, valid_bytes);
	atomic_fetch_add_explicit(&cost_ns, clock_thread_ns() - start_ns, memory_order_relaxed);
}

uint64_t activity_cost_ns(void)
{
	return atomic_load_explicit(&cost_ns, memory_order_relaxed);
}

int activity_start(struct proton_error *err)
{
	uint8_t on = 1;
	size_t size = sizeof(on);
	int result;

	set_buffer_bytes(choose_buffer_bytes());
	atomic_store(&completed, 0);
	atomic_store(&cost_ns, 0);
	atomic_store(&dropped_records, 0);
	atomic_store(&was_refused, false);
	pthread_mutex_lock(&flush_lock);
	given_up = 0;
	missing_was_noted = false;
	pthread_mutex_unlock(&flush_lock);
	/* Both only save time; versions of CUPTI that do not support one work without it. */
	libcupti.cuptiActivitySetAttribute(CUPTI_ATTRIBUTE_ZEROED_OUT_BUFFER, &size, &on);
	libcupti.cuptiActivitySetAttribute(CUPTI_ATTRIBUTE_PER_THREAD_BUFFER, &size, &on);
	if (libcupti.cuptiActivityRegisterTimestampCallback(read_clock) == CUPTI_OK)
		atomic_store_explicit(&clock_offset_ns, 0, memory_order_relaxed);
	else
		atomic_store_explicit(&clock_offset_ns, measure_offset(), memory_order_relaxed);
	result = libcupti.cuptiActivityRegisterCallbacks(on_buffer_requested, on_buffer_completed);
	if (result != CUPTI_OK)
		return cupti_api_error(result, "cuptiActivityRegisterCallbacks", err);
	result = libcupti.cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
	if (result != CUPTI_OK)
		return cupti_api_error(result, "cuptiActivityEnable", err);
	return PROTON_OK;
}

/*
 * Missing records will never arrive: they are not waited for again, and counted unless CUPTI
 * counted them as dropped.
 */
static void give_up(uint64_t missing)
{
	size_t unasked = 0;
	uint64_t dropped;

	/* If there was no buffer to return, CUPTI has not reported this count yet. */
	if (libcupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &unasked) == CUPTI_OK && unasked)
		drop(unasked);
	dropped = atomic_exchange(&dropped_records, 0);
	given_up += missing;
	if (missing <= dropped)
		return;
	missing -= dropped;
	record_count(COUNTER_LOST_MISSING, missing);
	if (!missing_was_noted)
		message("no CUPTI records were received for %llu kernels; another tool in this "
			"process (torch.profiler?) may have taken over CUPTI's buffers, or the GPU "
			"reported an error",
			(unsigned long long)missing);
	missing_was_noted = true;
}

bool activity_missed_records(void)
{
	bool missed;

	pthread_mutex_lock(&flush_lock);
	missed = missing_was_noted;
	pthread_mutex_unlock(&flush_lock);
	return missed;
}

int activity_flush(uint64_t launched, uint32_t last_shared, bool in_doubt, struct proton_error *err)
{
	uint64_t limit_ns = in_doubt ? DOUBT_LIMIT_NS : FLUSH_LIMIT_NS;
	uint64_t now_ns = clock_monotonic_ns();
	uint64_t older_ns = now_ns; /* last time without a record of a later replay */
	uint64_t moved_ns = now_ns; /* last time a new record was seen */
	uint64_t before = 0;
	int failure = CUPTI_OK;

	pthread_mutex_lock(&flush_lock);
	if (missing_was_noted)
		limit_ns = DOUBT_LIMIT_NS;
	for (;;) {
		uint64_t now = atomic_load_explicit(&processed, memory_order_relaxed);
		uint64_t come;
		int result;

		if (now != before)
			moved_ns = now_ns;
		before = now;
		if ((int32_t)(atomic_load_explicit(&newest_shared, memory_order_relaxed) -
			      last_shared) <= 0)
			older_ns = now_ns;
		result = libcupti.cuptiActivityFlushAll(0);
		if (result != CUPTI_OK)
			failure = result;
		if (result != CUPTI_OK ||
		    atomic_load_explicit(&dropped_records, memory_order_relaxed) ||
		    atomic_load_explicit(&was_refused, memory_order_relaxed))
			limit_ns = DOUBT_LIMIT_NS;
		now_ns = clock_monotonic_ns();
		if (!has_lent() && limit_ns > TAKEN_LIMIT_NS)
			limit_ns = TAKEN_LIMIT_NS; /* CUPTI has no buffer to fill */
		come = atomic_load_explicit(&completed, memory_order_relaxed) + given_up;
		if (come >= launched) {
			/*
			 * The number of records of a replay is unknown: wait until no more arrive,
			 * or until those of later replays do, because other threads may launch
			 * endlessly.
			 */
			if (!last_shared || now_ns - moved_ns > QUIET_NS ||
			    now_ns - older_ns > QUIET_NS)
				break;
		} else if (now_ns - moved_ns > limit_ns) {
			give_up(launched - come);
			break;
		}
		usleep(50);
	}
	pthread_mutex_unlock(&flush_lock);
	return failure == CUPTI_OK ? PROTON_OK
				   : cupti_api_error(failure, "cuptiActivityFlushAll", err);
}

bool activity_ask(void)
{
	if (pthread_mutex_trylock(&flush_lock) != 0)
		return false;
	libcupti.cuptiActivityFlushAll(0);
	pthread_mutex_unlock(&flush_lock);
	return true;
}

void activity_stop(void)
{
	int result = libcupti.cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);

	if (result != CUPTI_OK)
		message("cannot disable CUPTI kernel activity (cuptiActivityDisable: error %d); "
			"its overhead remains",
			result);
	libcupti.cuptiActivityFlushAll(CUPTI_FLUSH_FORCED);
}
