/* Launch configurations by correlation ID. */
#include "backend/amd/roctracer_configs.h"

#include <stdatomic.h>
#include <string.h>

#define SLOTS 65536u /* launches in flight; 2 MiB, touched when used */

/* A newer launch may overwrite a slot at any time; `number` is 0 then (a sequence lock). */
static struct slot {
	_Atomic uint32_t number;
	_Atomic uint32_t shared_bytes;
	_Atomic uint64_t sizes[3];
} slots[SLOTS];

void roctracer_configs_put(uint32_t correlation, const struct roctracer_config *config)
{
	struct slot *slot = &slots[correlation % SLOTS];

	atomic_store_explicit(&slot->number, 0, memory_order_relaxed);
	/* release: a reader of a new word does not see an old number */
	atomic_thread_fence(memory_order_release);
	for (int i = 0; i < 3; i++)
		atomic_store_explicit(&slot->sizes[i], config->sizes[i], memory_order_relaxed);
	atomic_store_explicit(&slot->shared_bytes, config->shared_bytes, memory_order_relaxed);
	/* release: pairs with the first load of roctracer_configs_get() */
	atomic_store_explicit(&slot->number, correlation, memory_order_release);
}

bool roctracer_configs_get(uint32_t correlation, struct launch_config *config_out)
{
	struct slot *slot = &slots[correlation % SLOTS];
	struct launch_config config = {.registers_per_thread = 0};
	uint64_t sizes[3];

	if (atomic_load_explicit(&slot->number, memory_order_acquire) != correlation)
		return false;
	for (int i = 0; i < 3; i++)
		sizes[i] = atomic_load_explicit(&slot->sizes[i], memory_order_relaxed);
	config.dynamic_shared_bytes =
		atomic_load_explicit(&slot->shared_bytes, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->number, memory_order_relaxed) != correlation)
		return false;
	memcpy(config.grid, sizes, sizeof(config.grid));
	memcpy(config.block, (const char *)sizes + sizeof(config.grid), sizeof(config.block));
	*config_out = config;
	return true;
}
