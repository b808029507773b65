/* Fake libamdhip64: copies and host functions in stream order, which captures take. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake/fake_cupti.h"
#include "fake/faults.h"
#include "fake/hip.h"

#define WORK_MAX 4096
#define CAPTURES 64

struct work {
	void *to;
	const void *from;
	size_t bytes;
	void (*function)(void *user);
	void *user;
};

struct list {
	struct work work[WORK_MAX];
	size_t count;
};

static struct list captured;
static struct list held;
static bool is_holding;
static _Atomic uint64_t capture_number = 1;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following */
static struct {
	uint64_t stream;
	uint64_t number; /* 0: free */
} captures[CAPTURES];

int cuStreamIsCapturing(void *stream, int *status);

FAKE_EXPORT void fake_set_stream_capture(uint64_t stream, uint64_t number)
{
	size_t i = 0;

	pthread_mutex_lock(&lock);
	while (i < CAPTURES && captures[i].stream != stream)
		i++;
	if (i == CAPTURES)
		for (i = 0; captures[i].number;)
			if (++i == CAPTURES)
				abort();
	captures[i].stream = stream;
	captures[i].number = number;
	pthread_mutex_unlock(&lock);
}

/* The number of the stream's capture; 0: none. */
static uint64_t number_of(const void *stream)
{
	uint64_t number = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CAPTURES; i++)
		if (captures[i].number && captures[i].stream == (uintptr_t)stream)
			number = captures[i].number;
	pthread_mutex_unlock(&lock);
	return number;
}

FAKE_EXPORT void fake_set_capture_number(uint64_t number)
{
	captured.count = 0;
	atomic_store(&capture_number, number);
}

static void run(const struct list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct work *work = &list->work[i];

		if (work->function)
			work->function(work->user);
		else
			memcpy(work->to, work->from, work->bytes);
	}
}

FAKE_EXPORT void fake_run_captured(void)
{
	run(&captured);
}

FAKE_SETTER(hold_streams, bool, is_holding)

FAKE_EXPORT void fake_run_held(void)
{
	run(&held);
	held.count = 0;
}

static bool keep(struct work work, void *stream)
{
	int status = 0;
	struct list *list;

	cuStreamIsCapturing(stream, &status);
	if (number_of(stream))
		status = 1;
	list = status == 1 ? &captured : is_holding ? &held : NULL;
	if (!list)
		return false;
	if (list->count == WORK_MAX)
		abort();
	list->work[list->count++] = work;
	return true;
}

bool fake_hip_keep_copy(void *to, const void *from, size_t bytes, void *stream)
{
	return keep((struct work){.to = to, .from = from, .bytes = bytes}, stream);
}

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* HIP's are its own */

FAKE_EXPORT int hipLaunchHostFunc(void *stream, void (*function)(void *user), void *user)
{
	int code;

	if (fault_strikes_more("hipLaunchHostFunc", &code))
		return code;
	if (!keep((struct work){.function = function, .user = user}, stream))
		function(user);
	return 0;
}

FAKE_EXPORT int hipStreamGetCaptureInfo(void *stream, int *status, unsigned long long *number)
{
	int code;

	if (fault_strikes_more("hipStreamGetCaptureInfo", &code))
		return code;
	*number = number_of(stream);
	*status = 1;
	if (*number)
		return 0;
	*number = atomic_load(&capture_number);
	return cuStreamIsCapturing(stream, status);
}
