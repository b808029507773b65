/*
 * Device metrics on AMD: an asynchronous copy into pinned memory, and after it on the same stream a
 * host function that puts the value into a queue. In a capture both become nodes of the graph, so
 * each replay reads again. (CUDA uses a kernel instead; there is no machine code that runs on every
 * AMD GPU.) HIP's records are not needed: a replay reads the values of its appends exactly once.
 */

#include <libproton/proton.h>

#include "backend/amd/hip_graphs.h"
#include "base/array.h"
#include "base/mutex.h"
#include "driver/driver.h"
#include "driver/hip_functions.h"

#define SMALL_BYTES 64u /* most values are numbers */
#define SMALL_COUNT 64u /* that are allocated at once */
#define QUEUE_MAX_BYTES (4u << 20)

/* Pinned memory of one append. A captured append keeps it: its graph may be replayed again. */
struct slot {
	struct slot *next; /* free ones */
	uint64_t id;
	uint32_t bytes;
	bool is_small;
	bool is_captured;
	void *memory;
};

/* A value in the queue; its bytes follow. */
struct value {
	uint64_t id;
	uint32_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static struct slot *free_slots[2];                       /* large, small */
static uint8_t *queue;
static size_t queue_bytes;
static size_t queue_capacity;

static _Atomic size_t waiting_bytes; /* queue_bytes, without the lock */
static _Atomic uint64_t lost;

void hip_tensors_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	free_slots[0] = NULL; /* the child must not use the memory */
	free_slots[1] = NULL;
	queue_bytes = 0;
	atomic_store(&waiting_bytes, 0);
}

/* ------------------------------------------------------------------ pinned memory */

static void give_back(struct slot *slot)
{
	MUTEX_HOLD(&lock);
	slot->next = free_slots[slot->is_small];
	free_slots[slot->is_small] = slot;
}

static int allocate(bool is_small, struct proton_error *err)
{
	uint32_t count = is_small ? SMALL_COUNT : 1;
	uint32_t bytes = is_small ? SMALL_BYTES : PROTON_DEVICE_METRIC_MAX_BYTES;
	struct slot *slots = calloc(count, sizeof(*slots));
	void *memory = NULL;

	if (!slots)
		return err_nomem(err);
	int result = libhip.cuMemHostAlloc(&memory, (size_t)count * bytes, DRIVER_HOST_PORTABLE);
	if (result) {
		free(slots);
		return tensors_refuse(result, "hipHostMalloc", err);
	}
	for (uint32_t i = 0; i < count; i++) {
		slots[i].is_small = is_small;
		slots[i].memory = (char *)memory + (size_t)i * bytes;
		give_back(&slots[i]);
	}
	return PROTON_OK;
}

/* Slots are never freed: HIP may still use the memory when the program ends. */
static int take_slot(uint32_t bytes, struct slot **out, struct proton_error *err)
{
	bool is_small = bytes <= SMALL_BYTES;
	int status = PROTON_OK;

	*out = NULL;
	while (!*out && status == PROTON_OK) {
		pthread_mutex_lock(&lock);
		*out = free_slots[is_small];
		if (*out)
			free_slots[is_small] = (*out)->next;
		pthread_mutex_unlock(&lock);
		if (!*out)
			status = allocate(is_small, err);
	}
	return status;
}

/* ------------------------------------------------------------------ the queue */

/* The copy has ended. On HIP's thread, which may call nothing of HIP here. */
static void on_copied(void *user)
{
	struct slot *slot = user;
	struct value value = {.id = slot->id, .bytes = slot->bytes};
	size_t more = sizeof(value) + slot->bytes;

	pthread_mutex_lock(&lock);
	if (queue_bytes + more <= QUEUE_MAX_BYTES &&
	    array_reserve(&queue, &queue_capacity, queue_bytes + more, 1)) {
		memcpy(queue + queue_bytes, &value, sizeof(value));
		memcpy(queue + queue_bytes + sizeof(value), slot->memory, slot->bytes);
		queue_bytes += more;
		atomic_store_explicit(&waiting_bytes, queue_bytes, memory_order_relaxed);
	} else {
		atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
	}
	pthread_mutex_unlock(&lock);
	if (!slot->is_captured)
		give_back(slot);
}

static void drain_slots(void (*deliver)(uint64_t id, const void *bytes, uint32_t count))
{
	if (!atomic_load_explicit(&waiting_bytes, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	AUTO_FREE uint8_t *taken = queue;
	size_t bytes = queue_bytes;
	queue = NULL;
	queue_bytes = 0;
	queue_capacity = 0;
	atomic_store_explicit(&waiting_bytes, 0, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
	for (size_t at = 0; at < bytes;) {
		struct value value;

		memcpy(&value, taken + at, sizeof(value));
		deliver(value.id, taken + at + sizeof(value), value.bytes);
		at += sizeof(value) + value.bytes;
	}
}

static bool is_filling(void)
{
	return atomic_load_explicit(&waiting_bytes, memory_order_relaxed) > QUEUE_MAX_BYTES / 2;
}

static uint64_t count_lost(void)
{
	return atomic_load_explicit(&lost, memory_order_relaxed);
}

/* ------------------------------------------------------------------ appending */

/* Work on a default stream goes to the current device's default stream. */
static void set_device(struct append *append, uint64_t address)
{
	int device = hip_streams_device(append->stream, address);
	int current = device;

	if (device >= 0 && libhip.cuCtxGetDevice(&current) == 0 && current != device)
		append->is_pushed = libhip.cuCtxPushCurrent(driver_handle((uint64_t)device + 1)) ==
				    0;
}

static int begin_append(struct append *append, uint64_t stream, uint64_t address,
			struct proton_error *err)
{
	int status = driver_load_hip(err);
	uint64_t number = 0;

	*append = (struct append){.stream = stream, .mode = -1};
	if (status != PROTON_OK)
		return status;
	/* While any thread captures in the default mode, allocating memory fails the capture. */
	append->mode = DRIVER_CAPTURE_RELAXED;
	if (libhip.cuThreadExchangeStreamCaptureMode(&append->mode) != 0)
		append->mode = -1;
	set_device(append, address);
	append->is_capturing = hip_streams_capture(stream, &number);
	append->is_refused = append->is_capturing && !number;
	return PROTON_OK;
}

static int launch_append(struct append *append, uint64_t id, uint64_t address, uint32_t bytes,
			 struct proton_error *err)
{
	struct slot *slot;

	TRY(take_slot(bytes, &slot, err));
	slot->id = id;
	slot->bytes = bytes;
	slot->is_captured = append->is_capturing;
	int result = libhip.cuMemcpyDtoHAsync(slot->memory, address, bytes,
					      driver_handle(append->stream));
	if (result) {
		give_back(slot);
		return tensors_refuse(result, "hipMemcpyDtoHAsync", err);
	}
	/* If it fails, the copy may still run: the slot is lost. */
	result = hip_streams_call(append->stream, on_copied, slot);
	if (result)
		return tensors_refuse(result, "hipLaunchHostFunc", err);
	if (append->is_capturing)
		hip_graphs_take(append->stream, HIP_NODE_APPEND);
	return PROTON_OK;
}

static void end_append(struct append *append)
{
	void *context;

	if (append->is_pushed)
		libhip.cuCtxPopCurrent(&context);
	if (append->mode >= 0)
		libhip.cuThreadExchangeStreamCaptureMode(&append->mode);
}

const struct tensors_reader hip_tensors_reader = {
	.begin = begin_append,
	.launch = launch_append,
	.end = end_append,
	.drain = drain_slots,
	.is_filling = is_filling,
	.lost = count_lost,
	.library = "HIP",
	.graphs = "HIP",
};
