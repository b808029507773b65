/* Table of sessions and published session sets. */
#include "record/session/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/message.h"
#include "base/region.h"
#include "record/record.h"
#include "record/session/fork.h"
#include "record/store/intra_launch.h"

#define CONFIG_UNIT 8u              /* a config's id is its offset divided by this */
#define CONFIG_RESERVE (4ull << 30) /* ids stay below CONFIG_TRACED */

_Atomic uint32_t session_generation;
_Atomic uint32_t session_config;

struct registry registry = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.changed = PTHREAD_COND_INITIALIZER,
	.next_serial = 1,
};

static struct region config_space;
static uint64_t config_used = CONFIG_UNIT;

/* Ids of session sets by the hash of their content, the newest first. Guarded by the registry. */
#define RECENT_SETS 256u
#define RECENT_WAYS 8u
static struct {
	uint32_t ids[RECENT_WAYS];
} recent[RECENT_SETS];

int registry_prepare(struct proton_error *err)
{
	int status = region_reserve(&config_space, CONFIG_RESERVE, 1 << 20, 1, err);

	if (status != PROTON_OK)
		return status;
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		pthread_mutex_init(&registry.sessions[slot].lock, NULL);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ configs */

const struct config *session_config_get(uint32_t config)
{
	static const struct config nothing;

	if (!config)
		return &nothing;
	config &= ~CONFIG_TRACED;
	return (const void *)((const char *)config_space.base + (uint64_t)config * CONFIG_UNIT);
}

uint32_t session_newest_serial(void)
{
	return atomic_load_explicit(&registry.next_serial, memory_order_relaxed) - 1;
}

struct session *session_lock_entry(const struct config_entry *entry)
{
	struct session *session = &registry.sessions[entry->slot];

	pthread_mutex_lock(&session->lock);
	if (session->is_live && session->serial == entry->serial)
		return session;
	pthread_mutex_unlock(&session->lock);
	return NULL;
}

void session_unlock(struct session *session)
{
	pthread_mutex_unlock(&session->lock);
}

/* Fills in the set of active sessions, in zeroed memory; returns the flags of its id. */
static uint32_t fill(struct config *config)
{
	uint32_t traced = 0;

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		if (!session->is_live || !session->is_active)
			continue;
		config->entries[config->count++] = (struct config_entry){
			.slot = slot,
			.serial = session->serial,
			.epoch = session->store.epoch,
			.wants_source = session->wants_source,
			.trace = (uint16_t)session->trace,
			.wants_memory = (session->flags & PROTON_SESSION_MEMORY) != 0,
		};
		config->wants_source |= session->wants_source;
		traced |= session->trace ? CONFIG_TRACED : 0;
	}
	return traced;
}

static size_t config_bytes(const struct config *config)
{
	return sizeof(*config) + config->count * sizeof(config->entries[0]);
}

/* Without a session set nothing is recorded; each session counts that as lost. */
static void lose_config(const struct config *wanted)
{
	static bool is_reported;

	for (uint32_t i = 0; i < wanted->count; i++) {
		struct session *session = session_lock_entry(&wanted->entries[i]);

		if (!session)
			continue;
		store_count(&session->store, COUNTER_LOST_STORAGE, 1);
		session_unlock(session);
	}
	if (!is_reported)
		message("cannot record more: no address space for another set of sessions; end "
			"a session, or change phases less often");
	is_reported = true;
}

/*
 * The id of a session set equal to `wanted`: sessions that are paused and resumed get their earlier
 * one. 0 if there is no space.
 */
static uint32_t find_or_add(const struct config *wanted)
{
	size_t bytes = config_bytes(wanted);
	uint32_t *ways = recent[hash_bytes(wanted, bytes) % RECENT_SETS].ids;
	uint32_t id;

	for (uint32_t way = 0; way < RECENT_WAYS; way++) {
		const struct config *known = session_config_get(ways[way]);

		if (ways[way] && config_bytes(known) == bytes && memcmp(known, wanted, bytes) == 0)
			return ways[way];
	}
	if (config_used + bytes > config_space.bytes)
		return 0;
	id = (uint32_t)(config_used / CONFIG_UNIT);
	memcpy((char *)config_space.base + config_used, wanted, bytes);
	config_used += bytes;
	memmove(ways + 1, ways, (RECENT_WAYS - 1) * sizeof(*ways));
	ways[0] = id;
	return id;
}

void session_publish(void)
{
	/* Zeroed space for the largest session set. */
	uint64_t space[(sizeof(struct config) + SESSION_MAX * sizeof(struct config_entry)) / 8] = {
		0};
	struct config *wanted = (void *)space;
	uint32_t traced = fill(wanted);
	uint32_t id = wanted->count ? find_or_add(wanted) : 0;

	if (id)
		id |= traced;
	else if (wanted->count)
		lose_config(wanted);
	/* release: the set's content before its id; launches load it with acquire */
	atomic_store_explicit(&session_config, id, memory_order_release);
}

/* ------------------------------------------------------------------ lookup */

struct session *registry_find(int id)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		if (registry.sessions[slot].is_live && registry.sessions[slot].id == id)
			return &registry.sessions[slot];
	return NULL;
}

bool registry_means(const struct session *session, int id)
{
	return session->is_live && (id == PROTON_ALL_SESSIONS || session->id == id);
}

int registry_no_such(int id, struct proton_error *err)
{
	return err_set(err, PROTON_E_RANGE, "Session has not been initialized: %d", id);
}

struct session *session_get(int id, struct proton_error *err)
{
	struct session *session;

	pthread_mutex_lock(&registry.lock);
	session = registry_find(id);
	if (!session) {
		pthread_mutex_unlock(&registry.lock);
		registry_no_such(id, err);
	}
	return session;
}

void session_put(struct session *session)
{
	(void)session;
	pthread_mutex_unlock(&registry.lock);
}

bool proton_is_profiling(void)
{
	return session_any_live();
}

uint32_t registry_live_count(void)
{
	uint32_t count = 0;

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		count += registry.sessions[slot].is_live;
	return count;
}

void registry_free_texts(struct session *session)
{
	free(session->path);
	free(session->mode);
	free(session->format);
	session->path = NULL;
	session->mode = NULL;
	session->format = NULL;
}

const char *proton_session_backend(int id)
{
	struct session *session = session_get(id, NULL);
	const char *name = session ? session->backend->name : NULL;

	if (session)
		session_put(session);
	return name;
}

static bool is_written_here(uint32_t slot)
{
	return pthread_equal(registry.sessions[slot].ender, pthread_self());
}

bool session_is_writing(void)
{
	bool found = false;

	pthread_mutex_lock(&registry.lock);
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		found = found || registry.slots[slot] == SLOT_ENDING;
	pthread_mutex_unlock(&registry.lock);
	return found;
}

void registry_wait_written(int id)
{
	uint32_t newest = session_newest_serial();
	uint32_t slot = 0;

	pthread_mutex_lock(&registry.lock);
	while (slot < SESSION_MAX) {
		const struct session *session = &registry.sessions[slot];

		/*
		 * Not for the calling thread itself: a signal handler of the program that calls
		 * exit() may have interrupted it. Not for sessions that began later: there may
		 * always be another one.
		 */
		if (registry.slots[slot] == SLOT_ENDING && !is_written_here(slot) &&
		    session->serial <= newest && (id == PROTON_ALL_SESSIONS || session->id == id)) {
			pthread_cond_wait(&registry.changed, &registry.lock);
			slot = 0; /* the registry was unlocked: start over */
		} else {
			slot++;
		}
	}
	pthread_mutex_unlock(&registry.lock);
}

void session_wait_written(void)
{
	registry_wait_written(PROTON_ALL_SESSIONS);
}

/* ------------------------------------------------------------------ counters of all sessions */

void record_lost(enum record_loss cause, uint64_t count)
{
	static const enum counter counters[] = {
		[RECORD_LOST_UNMATCHED] = COUNTER_LOST_UNMATCHED,
		[RECORD_LOST_DROPPED] = COUNTER_LOST_DROPPED,
		[RECORD_LOST_VALUE] = COUNTER_LOST_VALUE,
		[RECORD_LOST_NO_TIME] = COUNTER_LOST_NO_TIME,
		[RECORD_LOST_TIME] = COUNTER_LOST_TIME,
		[RECORD_LOST_MEMORY] = COUNTER_LOST_MEMORY,
		[RECORD_LOST_MISSING] = COUNTER_LOST_MISSING,
	};

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		pthread_mutex_lock(&registry.sessions[slot].lock);
		if (registry.sessions[slot].is_live &&
		    (cause != RECORD_LOST_MEMORY ||
		     registry.sessions[slot].flags & PROTON_SESSION_MEMORY))
			store_count(&registry.sessions[slot].store, counters[cause], count);
		pthread_mutex_unlock(&registry.sessions[slot].lock);
	}
}

void record_intra_count(enum intra_counter counter, uint64_t count)
{
	static const enum counter counters[] = {
		[INTRA_UNSAMPLED] = COUNTER_UNSAMPLED,
		[INTRA_DROPPED] = COUNTER_LOST_INSIDE,
		[INTRA_BROKEN] = COUNTER_LOST_PAIR,
		[INTRA_DAMAGED] = COUNTER_LOST_DAMAGED,
	};

	for (uint32_t slot = 0; count && slot < SESSION_MAX; slot++) {
		pthread_mutex_lock(&registry.sessions[slot].lock);
		if (registry.sessions[slot].is_live)
			store_count(&registry.sessions[slot].store, counters[counter], count);
		pthread_mutex_unlock(&registry.sessions[slot].lock);
	}
}

/* ------------------------------------------------------------------ fork */

void session_fork_prepare(void)
{
	pthread_mutex_lock(&registry.lock);
	adding_fork_prepare();
	frames_fork_prepare_reuse();
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		pthread_mutex_lock(&registry.sessions[slot].lock);
}

void session_fork_parent(void)
{
	for (uint32_t slot = SESSION_MAX; slot-- > 0;)
		pthread_mutex_unlock(&registry.sessions[slot].lock);
	adding_fork_parent();
	pthread_mutex_unlock(&registry.lock);
}

void session_fork_child(void)
{
	adding_fork_child();
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		pthread_mutex_init(&session->lock, NULL);
		if (registry.slots[slot] != SLOT_FREE) {
			store_fini(&session->store, false);
			registry_free_texts(session);
		}
		session->is_live = false;
		session->is_active = false;
		registry.slots[slot] = SLOT_FREE;
	}
	atomic_store(&registry.is_owned, false);
	atomic_store(&session_config, 0);
	if (session_any_live())
		atomic_fetch_add(&session_generation, 1);
	pthread_cond_init(&registry.changed, NULL);
	pthread_mutex_init(&registry.lock, NULL);
}
