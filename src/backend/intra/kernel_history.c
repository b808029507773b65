/* Table of running totals by kernel and context. */
#include "backend/intra/kernel_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define BUCKETS 1024u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects only the table */
static struct kernel_history *buckets[BUCKETS];

static struct kernel_history *make_history(const struct kernel *kernel, struct proton_context where)
{
	struct kernel_history *history = calloc(1, sizeof(*history));

	if (!history)
		return NULL;
	history->kernel = kernel;
	history->where = where;
	pthread_mutex_init(&history->lock, NULL);
	role_totals_init(&history->roles, &kernel->layout, where);
	return history;
}

struct kernel_history *kernel_history_of(const struct kernel *kernel, struct proton_context where)
{
	uint64_t hash = hash_u64((uintptr_t)kernel ^ hash_bytes(&where, sizeof(where)));
	struct kernel_history **bucket = &buckets[hash % BUCKETS];
	struct kernel_history *history;

	pthread_mutex_lock(&lock);
	for (history = *bucket; history; history = history->next)
		if (history->kernel == kernel && !memcmp(&history->where, &where, sizeof(where)))
			break;
	if (!history && (history = make_history(kernel, where)) != NULL) {
		history->next = *bucket;
		*bucket = history;
	}
	pthread_mutex_unlock(&lock);
	return history;
}

void kernel_history_clear(void)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < BUCKETS; i++) {
		while (buckets[i]) {
			struct kernel_history *history = buckets[i];

			buckets[i] = history->next;
			context_totals_fini(&history->totals);
			pthread_mutex_destroy(&history->lock);
			free(history);
		}
	}
	pthread_mutex_unlock(&lock);
}

void kernel_history_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	for (uint32_t i = 0; i < BUCKETS; i++)
		buckets[i] = NULL; /* may be inconsistent */
}
