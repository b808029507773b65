/* Published session sets, and the locks of sessions. */
#include "record/sets/session.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/message.h"
#include "base/mutex.h"

#define CONFIG_UNIT 8u              /* a config's id is its offset divided by this */
#define CONFIG_RESERVE (4ull << 30) /* ids stay below CONFIG_TRACED */

/* Every scope reads them: not on a cache line with variables that change often. */
_Alignas(CACHE_LINE_BYTES) _Atomic uint32_t session_generation;
_Alignas(CACHE_LINE_BYTES) _Atomic uint32_t session_config;

static struct region config_space;
static uint64_t config_used = CONFIG_UNIT;

/* Ids of session sets by the hash of their content, the newest first. Guarded by the registry. */
#define RECENT_SETS 256u
#define RECENT_WAYS 8u
static struct {
	uint32_t ids[RECENT_WAYS];
} recent[RECENT_SETS];

int session_prepare(struct proton_error *err)
{
	for (uint32_t slot = 0; slot < SESSION_MAX; slot++)
		pthread_mutex_init(&registry.sessions[slot].lock, NULL);
	return region_reserve(&config_space, CONFIG_RESERVE, 1 << 20, 1, err);
}

const struct config *session_config_get(uint32_t config)
{
	static const struct config nothing;

	if (!config)
		return &nothing;
	config &= ~(CONFIG_TRACED | CONFIG_SCOPED);
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

bool session_walk(struct session_walk *walk)
{
	if (walk->session)
		pthread_mutex_unlock(&walk->session->lock);
	walk->session = NULL;
	if (!walk->config)
		walk->config = session_config_get(walk->sessions);
	while (!walk->session && walk->next < walk->config->count) {
		walk->entry = &walk->config->entries[walk->next++];
		walk->session = walk->lock(walk->entry);
	}
	return walk->session;
}

/* For estimates from windows: rates are multiplied by this time. The registry's lock is held. */
static void note_active(struct session *session, bool is_active)
{
	if (is_active == session->was_active)
		return;
	session->was_active = is_active;
	MUTEX_HOLD(&session->lock);
	store_windows_set_active(&session->store.windows, is_active, clock_monotonic_ns());
}

/* Fills in the set of active sessions, in zeroed memory; returns the flags of its id. */
static uint32_t fill_config(struct config *config)
{
	uint32_t flags = 0;

	for (uint32_t slot = 0; slot < SESSION_MAX; slot++) {
		struct session *session = &registry.sessions[slot];

		note_active(session, session->is_live && session->is_active);
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
		flags |= session->trace ? CONFIG_TRACED : 0;
		flags |= session->wants_scopes ? CONFIG_SCOPED : 0;
	}
	return flags;
}

static size_t config_bytes(const struct config *config)
{
	return sizeof(*config) + config->count * sizeof(config->entries[0]);
}

/* Without a session set nothing is recorded; each session counts that as lost. */
static void lose_config(const struct config *wanted)
{
	struct session_walk walk = {.config = wanted, .lock = session_lock_entry};

	while (session_walk(&walk))
		store_counters_add(&walk.session->store, COUNTER_LOST_STORAGE, 1);
	message_once("cannot record more: no address space for another set of sessions; end a "
		     "session, or change phases less often");
}

/* The id of the set `wanted`, which paused and resumed sessions get back. 0: no space. */
static uint32_t find_or_add(const struct config *wanted)
{
	size_t bytes = config_bytes(wanted);
	uint32_t *ways = recent[hash_bytes(wanted, bytes) % RECENT_SETS].ids;

	for (uint32_t way = 0; way < RECENT_WAYS; way++) {
		const struct config *known = session_config_get(ways[way]);

		if (ways[way] && config_bytes(known) == bytes && memcmp(known, wanted, bytes) == 0)
			return ways[way];
	}
	if (!region_reaches(&config_space, config_used + bytes))
		return 0;
	uint32_t id = (uint32_t)(config_used / CONFIG_UNIT);
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
	uint32_t flags = fill_config(wanted);
	uint32_t id = wanted->count ? find_or_add(wanted) : 0;

	if (id)
		id |= flags;
	else if (wanted->count)
		lose_config(wanted);
	/* release: the set's content before its id; launches load it with acquire */
	atomic_store_explicit(&session_config, id, memory_order_release);
}
