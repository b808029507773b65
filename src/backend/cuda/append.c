/*
 * Ring buffers for device metrics.
 *
 * Each CUDA context has one for the rest of the process: a graph that was captured with an append
 * may be replayed long after the last session has ended, and must find its ring buffer. It is host
 * memory registered with the driver, so it can be read even after its context was destroyed.
 */
#include "backend/cuda/append.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include <libproton/proton.h>

#include "backend/cuda/append_kernel.h"
#include "base/mutex.h"
#include "driver/driver.h"

/* The kernel contains these numbers. */
#define SLOT_COUNT 131072u
#define SLOT_BYTES 32u
#define HEADER_BYTES 128u
#define THREADS 32u

#define RING_MAX 64u
#define HOST_REGISTER_PORTABLE_MAPPED 3u
#define POINTER_ATTRIBUTE_CONTEXT 1

/* Header of an entry; its payload continues into the following slots, wrapping at the end. */
struct entry {
	_Atomic uint64_t stamp; /* position + 1, written last; 0: incomplete */
	uint64_t id;
	uint32_t bytes;
	uint32_t unused;
	uint8_t payload[8];
};

struct header {
	_Atomic uint64_t tail; /* slots read by the host */
	_Atomic uint64_t lost; /* written by the device */
	uint8_t unused[HEADER_BYTES - 16];
};

_Static_assert(sizeof(struct header) == HEADER_BYTES, "the kernel's layout");
_Static_assert(sizeof(struct entry) == SLOT_BYTES, "the kernel's layout");
_Static_assert(offsetof(struct entry, payload) == 24, "the kernel's layout");

struct append_ring {
	uint64_t context_id; /* the driver's id; never reused, unlike the handle */
	struct header *header;
	uint64_t device_address;
	void *function;
	_Atomic uint64_t tail; /* written only while draining */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the creation of ring buffers */
static struct append_ring rings[RING_MAX];
static _Atomic uint32_t ring_count;

/* ------------------------------------------------------------------ creating ring buffers */

void append_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&ring_count, 0); /* the child does not have their memory */
}

static int make_ring(struct append_ring *ring, uint64_t context_id, struct proton_error *err)
{
	size_t bytes = (HEADER_BYTES + SLOT_COUNT * SLOT_BYTES + 4095) & ~(size_t)4095;
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *call = "cuMemHostRegister";
	void *module = NULL;

	if (memory == MAP_FAILED)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "cannot allocate the ring buffer for device metrics");
	int result = libcuda.cuMemHostRegister(memory, bytes, HOST_REGISTER_PORTABLE_MAPPED);
	if (result) {
		munmap(memory, bytes);
		return tensors_refuse(result, call, err);
	}
	/* A child of fork() does not use it, and a write would make the pages move. */
	madvise(memory, bytes, MADV_DONTFORK);
	*ring = (struct append_ring){.context_id = context_id, .header = memory};
	call = "cuMemHostGetDevicePointer";
	result = libcuda.cuMemHostGetDevicePointer(&ring->device_address, memory, 0);
	if (!result) {
		call = "cuModuleLoadData";
		result = libcuda.cuModuleLoadData(&module, append_kernel);
	}
	if (!result) {
		call = "cuModuleGetFunction";
		result = libcuda.cuModuleGetFunction(&ring->function, module, APPEND_KERNEL_NAME);
	}
	if (result) {
		libcuda.cuMemHostUnregister(memory);
		munmap(memory, bytes);
		return tensors_refuse(result, call, err);
	}
	if (libcuda.cuFuncLoad) /* 12.4; modules load lazily, which fails in a capture */
		libcuda.cuFuncLoad(ring->function);
	return PROTON_OK;
}

static int find_ring(uint64_t context_id, struct append_ring **out, struct proton_error *err)
{
	int status;

	*out = NULL;
	MUTEX_HOLD(&lock);
	uint32_t count = atomic_load_explicit(&ring_count, memory_order_relaxed);
	for (uint32_t i = 0; i < count && !*out; i++)
		if (rings[i].context_id == context_id)
			*out = &rings[i];
	if (*out) {
		status = PROTON_OK;
	} else if (count == RING_MAX) {
		status = err_set(err, PROTON_E_UNSUPPORTED,
				 "device metrics are limited to %u CUDA contexts", RING_MAX);
	} else {
		status = make_ring(&rings[count], context_id, err);
		*out = &rings[count];
		/* release: the ring buffer before its number; pairs with append_drain() */
		if (status == PROTON_OK)
			atomic_store_explicit(&ring_count, count + 1, memory_order_release);
	}
	return status;
}

/* ------------------------------------------------------------------ appending */

/* The stream's context; for the default stream, the memory's context, or the current one. */
static void *context_of(uint64_t stream, uint64_t address, void *current)
{
	void *context = NULL;

	/* 1 and 2 are explicit handles of the default streams */
	if (stream > 2) {
		if (libcuda.cuStreamGetCtx(driver_handle(stream), &context) == 0 && context)
			return context;
		return current;
	}
	if (libcuda.cuPointerGetAttribute(&context, POINTER_ATTRIBUTE_CONTEXT, address) == 0 &&
	    context)
		return context;
	return current;
}

static int append_begin(struct append *append, uint64_t stream, uint64_t address,
			struct proton_error *err)
{
	void *current = NULL;
	uint64_t id;
	int capture = 0;
	int result;
	int status = driver_load_cuda(FOR_METRICS, err);

	*append = (struct append){.stream = stream, .mode = -1};
	if (status != PROTON_OK)
		return status;
	/* Captures in the default mode fail at calls below, without the relaxed mode. */
	append->mode = DRIVER_CAPTURE_RELAXED;
	if (libcuda.cuThreadExchangeStreamCaptureMode(&append->mode) != 0)
		append->mode = -1;
	libcuda.cuCtxGetCurrent(&current);
	void *context = context_of(stream, address, current);
	if (!context)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "device metrics require a current CUDA context");
	if (context != current) {
		result = libcuda.cuCtxPushCurrent(context);
		if (result)
			return tensors_refuse(result, "cuCtxPushCurrent", err);
		append->is_pushed = true;
	}
	append->is_refused = libcuda.cuStreamIsCapturing(driver_handle(stream), &capture) != 0 ||
			     capture > 1;
	append->is_capturing = append->is_refused || capture;
	result = libcuda.cuCtxGetId(context, &id);
	if (result)
		return tensors_refuse(result, "cuCtxGetId", err);
	return find_ring(id, &append->ring, err);
}

static int append_launch(struct append *append, uint64_t id, uint64_t address, uint32_t bytes,
			 struct proton_error *err)
{
	void *parameters[] = {&append->ring->device_address, &address, &id, &bytes};
	int result = libcuda.cuLaunchKernel(append->ring->function, 1, 1, 1, THREADS, 1, 1, 0,
					    driver_handle(append->stream), parameters, NULL);

	return result ? tensors_refuse(result, "cuLaunchKernel", err) : PROTON_OK;
}

static void append_end(struct append *append)
{
	void *popped;

	if (append->is_pushed)
		libcuda.cuCtxPopCurrent(&popped);
	if (append->mode >= 0)
		libcuda.cuThreadExchangeStreamCaptureMode(&append->mode);
}

/* ------------------------------------------------------------------ draining */

static struct entry *entry_at(const struct append_ring *ring, uint64_t position)
{
	return (struct entry *)(ring->header + 1) + position % SLOT_COUNT;
}

static bool has_entry(const struct append_ring *ring, uint64_t position)
{
	/* acquire: the rest of the entry is written before its stamp */
	return atomic_load_explicit(&entry_at(ring, position)->stamp, memory_order_acquire) ==
	       position + 1;
}

/* Copies the payload, which may wrap, to `out`. */
static void copy_payload(const struct append_ring *ring, uint64_t position, uint8_t *out,
			 uint32_t bytes)
{
	const uint8_t *slots = (const uint8_t *)(ring->header + 1);
	size_t all = SLOT_COUNT * SLOT_BYTES;
	size_t first = position % SLOT_COUNT * SLOT_BYTES + offsetof(struct entry, payload);
	size_t until_end = all - first < bytes ? all - first : bytes;

	memcpy(out, slots + first, until_end);
	memcpy(out + until_end, slots, bytes - until_end);
}

/* Zeroes the slots, because payload must not look like a stamp, and returns them to the device. */
static void give_back(struct append_ring *ring, uint64_t position, uint32_t slots)
{
	for (uint32_t i = 0; i < slots; i++)
		memset((void *)entry_at(ring, position + i), 0, SLOT_BYTES);
	atomic_store_explicit(&ring->tail, position + slots, memory_order_relaxed);
	atomic_store_explicit(&ring->header->tail, position + slots, memory_order_release);
}

static void drain_slots(struct append_ring *ring,
			void (*deliver)(uint64_t id, const void *bytes, uint32_t count))
{
	static uint8_t bytes[PROTON_DEVICE_METRIC_MAX_BYTES]; /* only one caller at a time */
	uint64_t position = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	while (has_entry(ring, position)) {
		const struct entry *entry = entry_at(ring, position);
		uint32_t count = entry->bytes;
		uint32_t slots = (count + 24 + SLOT_BYTES - 1) / SLOT_BYTES;
		uint64_t id = entry->id;

		if (count > sizeof(bytes)) /* never written by the kernel: corrupt */
			return;
		copy_payload(ring, position, bytes, count);
		give_back(ring, position, slots);
		deliver(id, bytes, count);
		position += slots;
	}
}

static void append_drain(void (*deliver)(uint64_t id, const void *bytes, uint32_t count))
{
	uint32_t count = atomic_load_explicit(&ring_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++)
		drain_slots(&rings[i], deliver);
}

static bool append_is_filling(void)
{
	uint32_t count = atomic_load_explicit(&ring_count, memory_order_acquire);

	for (uint32_t i = 0; i < count; i++) {
		uint64_t tail = atomic_load_explicit(&rings[i].tail, memory_order_relaxed);
		const struct entry *middle = entry_at(&rings[i], tail + SLOT_COUNT / 2);

		/* Any non-zero data, even payload, was written after the last drain. */
		if (atomic_load_explicit(&middle->stamp, memory_order_relaxed))
			return true;
	}
	return false;
}

static uint64_t append_lost(void)
{
	uint32_t count = atomic_load_explicit(&ring_count, memory_order_acquire);
	uint64_t lost = 0;

	for (uint32_t i = 0; i < count; i++)
		lost += atomic_load_explicit(&rings[i].header->lost, memory_order_relaxed);
	return lost;
}

const struct tensors_reader append_reader = {
	.begin = append_begin,
	.launch = append_launch,
	.end = append_end,
	.drain = append_drain,
	.is_filling = append_is_filling,
	.lost = append_lost,
	.kernel = APPEND_KERNEL_NAME,
	.library = "CUPTI",
	.graphs = "CUDA",
};
