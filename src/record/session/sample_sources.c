/* Source files of sampled lines. */
#include "base/array.h"
#include "base/mutex.h"
#include "record/session/session_parts.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/hash.h"
#include "base/slice.h"
#include "model/load.h"
#include "model/profile.h"
#include "model/samples.h"
#include "record/store/store.h"

/* ------------------------------------------------------------------ Triton's cache */

#define WALK_MAX_NS 2000000000u
#define CACHES_MAX 8u

static pthread_mutex_t caches_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static char *caches[CACHES_MAX];
static size_t cache_count;

/* The latest few are kept. */
void proton_kernel_cache_add(const char *path)
{
	char *copy = NULL;
	bool is_known = false;

	if (!path)
		return;
	MUTEX_HOLD(&caches_lock);
	for (size_t i = 0; i < CACHES_MAX; i++)
		is_known |= caches[i] && strcmp(caches[i], path) == 0;
	if (*path && !is_known)
		copy = strdup(path);
	if (copy) {
		free(caches[cache_count % CACHES_MAX]);
		caches[cache_count++ % CACHES_MAX] = copy;
	}
}

/* The directory that Triton finds in the environment. */
static bool environment_directory(char *path, size_t size)
{
	const char *named = environment_get("TRITON_CACHE_DIR");
	const char *home = environment_get("TRITON_HOME");
	int length;

	if (named && *named) {
		length = snprintf(path, size, "%s", named);
	} else {
		home = home && *home ? home : environment_get("HOME");
		length = snprintf(path, size, "%s/.triton/cache", home ? home : "");
	}
	return length > 0 && (size_t)length < size;
}

static bool walk_cache(const char *cache, bool (*visit)(void *user, const char *directory),
		       void *user, uint64_t end_ns)
{
	DIR *directory = opendir(cache);
	bool wants_more = true;

	while (directory && wants_more && clock_monotonic_ns() < end_ns) {
		struct dirent *entry = readdir(directory);
		char path[PATH_MAX];

		if (!entry)
			break;
		int length = snprintf(path, sizeof(path), "%s/%s", cache, entry->d_name);
		if (length > 0 && (size_t)length < sizeof(path) && entry->d_name[0] != '.')
			wants_more = visit(user, path);
	}
	if (directory)
		closedir(directory);
	return wants_more;
}

void sample_sources_walk_caches(bool (*visit)(void *user, const char *directory), void *user)
{
	uint64_t end_ns = clock_monotonic_ns() + WALK_MAX_NS;
	char found[PATH_MAX] = "";
	bool wants_more = true;

	if (environment_directory(found, sizeof(found)))
		wants_more = walk_cache(found, visit, user, end_ns);
	for (size_t i = 0; i < CACHES_MAX && wants_more; i++) {
		char path[PATH_MAX] = "";

		pthread_mutex_lock(&caches_lock);
		if (caches[i])
			snprintf(path, sizeof(path), "%s", caches[i]);
		pthread_mutex_unlock(&caches_lock);
		if (*path && strcmp(path, found) != 0)
			wants_more = walk_cache(path, visit, user, end_ns);
	}
}

/* ------------------------------------------------------------------ PTX of sampled kernels */

/*
 * PTX of sampled kernels, for cubins without the calls that were inlined: from Triton 3.6 and
 * 3.7. Triton keeps the PTX next to the cubin in its cache on disk; the profile gets a copy of the
 * locations.
 */

/* Limits of the search, which delays the program's end: functions, bytes of PTX. */
#define FUNCTIONS_MAX 256
#define PTX_MAX_BYTES (16u << 20)

struct search {
	struct store *store;
	const struct profile *profile;
	const struct profile_function *wanted[FUNCTIONS_MAX];
	size_t wanted_count;
	bool has_stored;
};

/* Functions of cubins that want PTX, in falling order of samples. */
static void find_wanted(struct search *search)
{
	const struct profile_samples *samples = search->profile->samples;

	ARRAY_EACH(function, samples->functions, samples->function_count) {
		const char *name = profile_text(search->profile, function->name);

		if (function->code_object &&
		    samples->code_objects[function->code_object - 1].wants_ptx &&
		    !strchr(name, '/') && search->wanted_count < FUNCTIONS_MAX)
			search->wanted[search->wanted_count++] = function;
	}
}

/* Empties lines without locations or functions, and adds a newline, for which there is space. */
static size_t keep_locations(char *text, size_t length)
{
	static const char *const kept[] = {".loc", ".file", ".entry", ".func"};
	struct slice rest = {text, length}, line;
	char *to = text;

	while (slice_take_line(&rest, &line)) {
		for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
			if (slice_find(line, kept[i])) {
				memmove(to, line.at, line.length);
				to += line.length;
				break;
			}
		}
		*to++ = '\n';
	}
	return (size_t)(to - text);
}

static void store_ptx(struct search *search, const char *path, uint64_t crc)
{
	const struct file_limits limits = {.max_bytes = PTX_MAX_BYTES};
	char name[32], *text;
	size_t length;

	if (file_read_all(path, &limits, &text, &length, NULL) != PROTON_OK)
		return;
	length = keep_locations(text, length);
	snprintf(name, sizeof(name), SAMPLES_PTX_PATH, crc);
	store_samples_source(search->store, name, text, length, hash_stored(text, length));
	search->has_stored = true;
	free(text);
}

static bool is_content(const char *path, const struct profile_code_object *object)
{
	const struct file_limits limits = {.max_bytes = object->length};
	struct stat st;
	AUTO_FREE char *bytes = NULL;
	size_t length;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != object->length ||
	    file_read_all(path, &limits, &bytes, &length, NULL) != PROTON_OK)
		return false;
	return length == object->length && memcmp(bytes, object->bytes, length) == 0;
}

/* Looks for the wanted cubins in one directory of the cache; each kernel has one. */
static bool search_directory(void *user, const char *directory)
{
	struct search *search = user;
	const struct profile_samples *samples = search->profile->samples;

	for (size_t i = 0; i < search->wanted_count; i++) {
		const struct profile_function *function = search->wanted[i];
		const char *name = profile_text(search->profile, function->name);
		const struct profile_code_object *object =
			&samples->code_objects[function->code_object - 1];
		char path[PATH_MAX];
		int length = snprintf(path, sizeof(path), "%s/%s.cubin", directory, name);

		if (length < 0 || (size_t)length >= sizeof(path) || !is_content(path, object))
			continue;
		memcpy(path + length - strlen("cubin"), "ptx", sizeof("ptx"));
		store_ptx(search, path, object->crc);
		search->wanted[i] = search->wanted[--search->wanted_count];
		break;
	}
	return search->wanted_count != 0;
}

/* `profile` is the store's. True if something was stored: it is then to be loaded again. */
static bool sample_ptx_store(struct store *store, const struct profile *profile)
{
	struct search search = {.store = store, .profile = profile};

	if (!profile->samples)
		return false;
	find_wanted(&search);
	if (search.wanted_count)
		sample_sources_walk_caches(search_directory, &search);
	return search.has_stored;
}

/* ------------------------------------------------------------------ source files */

#define FILE_MAX_BYTES (1u << 20)
#define ALL_MAX_BYTES (16u << 20)

/* Stores one file; returns the bytes used. The path comes from a cubin: it may be anything. */
static size_t store_file(struct store *store, const char *path, size_t space)
{
	/* Without O_NONBLOCK, opening a pipe would wait for its writer. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	AUTO_FREE char *bytes = NULL;
	ssize_t length = 0;

	if (fd < 0)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
		if ((uint64_t)st.st_size <= FILE_MAX_BYTES && (uint64_t)st.st_size <= space)
			bytes = malloc((size_t)st.st_size);
		if (bytes)
			length = file_read_full(fd, bytes, (size_t)st.st_size, -1);
		if (length > 0)
			store_samples_source(store, path, bytes, (size_t)length,
					     hash_stored(bytes, (size_t)length));
		else
			store_samples_source(store, path, NULL, (uint64_t)st.st_size, 0);
	}
	close(fd);
	return length > 0 ? (size_t)length : 0;
}

void sample_sources_store(struct store *store)
{
	struct profile *profile;
	size_t space = ALL_MAX_BYTES;

	if (!store->file.tables[TABLE_FUNCTIONS].rows ||
	    store_profile(store, PHASE_ALL, &profile, NULL) != PROTON_OK)
		return;
	/* With the PTX, lines of calls are known too, and their files. */
	if (sample_ptx_store(store, profile)) {
		profile_free(profile);
		if (store_profile(store, PHASE_ALL, &profile, NULL) != PROTON_OK)
			return;
	}
	for (size_t i = 0; profile->samples && i < profile->samples->file_count; i++)
		space -=
			store_file(store, profile_text(profile, profile->samples->files[i]), space);
	profile_free(profile);
}
