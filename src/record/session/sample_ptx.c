/* PTX of sampled kernels: search in Triton's cache, and what is stored of it. */
#include "record/session/sample_ptx.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/slice.h"
#include "model/samples.h"
#include "record/session/triton_cache.h"

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

	for (size_t i = 0; i < samples->function_count; i++) {
		const struct profile_function *function = &samples->functions[i];
		const char *name = profile_text(search->profile, function->name);

		if (function->code_object &&
		    samples->code_objects[function->code_object - 1].wants_ptx &&
		    !strchr(name, '/') && search->wanted_count < FUNCTIONS_MAX)
			search->wanted[search->wanted_count++] = function;
	}
}

/*
 * Empties lines without locations or functions; the numbers of the others stay. Ends in a newline,
 * for which there is space: file_read_all() has added a NUL.
 */
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
	char *bytes;
	size_t length;
	bool is_equal;

	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != object->length ||
	    file_read_all(path, &limits, &bytes, &length, NULL) != PROTON_OK)
		return false;
	is_equal = length == object->length && memcmp(bytes, object->bytes, length) == 0;
	free(bytes);
	return is_equal;
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

bool sample_ptx_store(struct store *store, const struct profile *profile)
{
	struct search search = {.store = store, .profile = profile};

	if (!profile->samples)
		return false;
	find_wanted(&search);
	if (search.wanted_count)
		triton_cache_walk(search_directory, &search);
	return search.has_stored;
}
