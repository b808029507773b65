/* Table of instrumented kernels by function handle. */
#include "backend/intra/loaded_kernels.h"

#include "base/hash.h"
#include "base/mutex.h"
#include "record/names/frames.h"

#define BUCKETS 256u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel *buckets[BUCKETS];

static struct kernel **bucket_of(uint64_t function)
{
	return &buckets[hash_u64(function) % BUCKETS];
}

int loaded_kernels_add(uint64_t function, const char *name, const char *layout, bool *is_amd_out,
		       struct proton_error *err)
{
	struct kernel **bucket = bucket_of(function);
	struct kernel *kernel = calloc(1, sizeof(*kernel));
	int status = frames_init(err);

	if (!kernel || status != PROTON_OK) {
		free(kernel);
		return status != PROTON_OK ? status : err_nomem(err);
	}
	if (layout)
		status = layout_read(layout, strlen(layout), &kernel->layout, err);
	kernel->name = strdup(name);
	kernel->frame = frames_add(FRAME_KERNEL, name, strlen(name));
	if (status == PROTON_OK && (!kernel->name || kernel->frame == FRAME_NONE))
		status = err_nomem(err);
	if (status != PROTON_OK) {
		layout_fini(&kernel->layout);
		free(kernel->name);
		free(kernel);
		return status;
	}
	*is_amd_out = kernel->layout.is_amd;
	kernel->function = function;
	loaded_kernels_remove(function);
	MUTEX_HOLD(&lock);
	kernel->next = *bucket;
	*bucket = kernel;
	return PROTON_OK;
}

void loaded_kernels_remove(uint64_t function)
{
	MUTEX_HOLD(&lock);
	for (struct kernel *kernel = *bucket_of(function); kernel; kernel = kernel->next)
		if (kernel->function == function)
			kernel->function = 0;
}

struct kernel *loaded_kernels_find(uint64_t function)
{
	struct kernel *kernel;

	MUTEX_HOLD(&lock);
	for (kernel = *bucket_of(function); kernel; kernel = kernel->next)
		if (kernel->function == function)
			break;
	return function ? kernel : NULL;
}

void loaded_kernels_visit(void (*visit)(struct kernel *kernel))
{
	MUTEX_HOLD(&lock);
	for (uint32_t i = 0; i < BUCKETS; i++)
		for (struct kernel *kernel = buckets[i]; kernel; kernel = kernel->next)
			visit(kernel);
}

static void reset_kernel(struct kernel *kernel)
{
	memset(&kernel->run, 0, sizeof(kernel->run));
}

void loaded_kernels_reset(void)
{
	loaded_kernels_visit(reset_kernel);
}

void loaded_kernels_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	memset(buckets, 0, sizeof(buckets)); /* known to the parent's driver only */
}
