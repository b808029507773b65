/* Process-wide metric names: parsing and registration. */

#include "base/map.h"
#include "base/region.h"
#include "base/strings.h"
#include "format/rows.h"
#include "record/names/frames.h"

#define NAMES_RESERVE (256ull << 20)

struct entry {
	uint32_t raw; /* the name as given */
	struct metric_name parsed;
};

pthread_mutex_t metric_names_lock = PTHREAD_MUTEX_INITIALIZER;
static struct region space;
static _Atomic uint32_t count; /* changed under the lock */
static struct map map;         /* hash of the name as given -> entry + 1 */

static const struct entry *entry_at(uint32_t id)
{
	return (const struct entry *)space.base + id;
}

static uint32_t find_metric(const char *name, size_t length, uint64_t *key_out)
{
	uint64_t key = hash_bytes(name, length);

	for (;; key++) {
		if (!key)
			key = 1;
		uint32_t found = map_find(&map, key);
		if (found) {
			uint32_t raw_length;
			const char *raw = frames_text(entry_at(found - 1)->raw, &raw_length);

			if (raw_length != length || memcmp(raw, name, length) != 0)
				continue;
		}
		*key_out = key;
		return found;
	}
}

static bool take_suffix(const char *name, size_t *length, const char *suffix)
{
	size_t suffix_length = strlen(suffix);

	if (*length < suffix_length ||
	    memcmp(name + *length - suffix_length, suffix, suffix_length) != 0)
		return false;
	*length -= suffix_length;
	return true;
}

/* A name without text next to its suffix is a name without a suffix. */
static struct metric_name parse_name(const char *name, size_t length)
{
	const char *whole = name;
	size_t whole_length = length;
	struct metric_name parsed = {.flags = 0};

	while (length && name[length - 1] == ' ')
		length--;
	if (take_suffix(name, &length, "(exc)"))
		parsed.flags = METRIC_EXCLUSIVE;
	else if (take_suffix(name, &length, "(pty)"))
		parsed.flags = METRIC_PROPERTY;
	else
		take_suffix(name, &length, "(inc)");
	while (length && name[length - 1] == ' ')
		length--;
	while (length && name[0] == ' ') {
		name++;
		length--;
	}
	if (length == 0)
		return (struct metric_name){.text = frames_string(whole, whole_length)};
	parsed.text = frames_string(name, length);
	return parsed;
}

uint32_t metric_names_add(const char *name)
{
	size_t length = strnlen(name, STRING_MAX_BYTES);
	uint64_t key;

	if (!frames_are_ready())
		return METRIC_NAME_NONE;
	uint32_t found = find_metric(name, length, &key);
	if (found)
		return found - 1;
	pthread_mutex_lock(&metric_names_lock);
	if (!space.base && region_reserve(&space, NAMES_RESERVE, 1 << 16, 1, NULL) != PROTON_OK)
		goto out;
	found = find_metric(name, length, &key);
	uint32_t id = atomic_load_explicit(&count, memory_order_relaxed);
	if (!found && id < LIMITS_METRICS &&
	    region_reaches(&space, (id + 1ull) * sizeof(struct entry))) {
		struct entry entry = {
			.raw = frames_string(name, length),
			.parsed = parse_name(name, length),
		};

		if (entry.raw != STRING_NONE && entry.parsed.text != STRING_NONE) {
			((struct entry *)space.base)[id] = entry;
			if (map_insert(&map, key, id + 1)) {
				found = id + 1;
				/* release: pairs with metric_names_exists's acquire */
				atomic_store_explicit(&count, found, memory_order_release);
			}
		}
	}
out:
	pthread_mutex_unlock(&metric_names_lock);
	if (!found)
		name_limits_count(LIMITS_FOLDED);
	return found ? found - 1 : METRIC_NAME_NONE;
}

struct metric_name metric_names_get(uint32_t id)
{
	return entry_at(id)->parsed;
}

bool metric_names_exists(uint32_t id)
{
	return id < atomic_load_explicit(&count, memory_order_acquire);
}
