/* Table of the process's devices. */
#include "record/store/devices.h"

#include <stdatomic.h>
#include <string.h>

#include "base/mutex.h"

pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICE_MAX];
static _Atomic uint32_t device_count;

uint32_t devices_add(const struct device *device)
{
	uint32_t found;

	MUTEX_HOLD(&devices_lock);
	uint32_t count = atomic_load_explicit(&device_count, memory_order_relaxed);
	for (found = 0; found < count; found++)
		if (devices[found].id == device->id &&
		    strcmp(devices[found].type, device->type) == 0)
			break;
	if (found == count) {
		if (count == DEVICE_MAX) {
			found = DEVICE_NONE;
		} else {
			devices[count] = *device;
			/* release: pairs with devices_get's acquire */
			atomic_store_explicit(&device_count, count + 1, memory_order_release);
		}
	}
	return found;
}

const struct device *devices_get(uint32_t device)
{
	if (device >= atomic_load_explicit(&device_count, memory_order_acquire))
		return NULL;
	return &devices[device];
}
