/* Triton's cache on disk. */
#include "record/session/triton_cache.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/clock.h"
#include "base/environment.h"

#define WALK_MAX_NS 2000000000u
#define ADDED_MAX 8u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static char *added[ADDED_MAX];
static size_t added_count;

/* The latest few are kept. */
void proton_kernel_cache_add(const char *path)
{
	char *copy = NULL;
	bool is_known = false;

	if (!path)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < ADDED_MAX; i++)
		is_known |= added[i] && strcmp(added[i], path) == 0;
	if (*path && !is_known)
		copy = strdup(path);
	if (copy) {
		free(added[added_count % ADDED_MAX]);
		added[added_count++ % ADDED_MAX] = copy;
	}
	pthread_mutex_unlock(&lock);
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
		int length;

		if (!entry)
			break;
		length = snprintf(path, sizeof(path), "%s/%s", cache, entry->d_name);
		if (length > 0 && (size_t)length < sizeof(path) && entry->d_name[0] != '.')
			wants_more = visit(user, path);
	}
	if (directory)
		closedir(directory);
	return wants_more;
}

void triton_cache_walk(bool (*visit)(void *user, const char *directory), void *user)
{
	uint64_t end_ns = clock_monotonic_ns() + WALK_MAX_NS;
	char found[PATH_MAX] = "";
	bool wants_more = true;

	if (environment_directory(found, sizeof(found)))
		wants_more = walk_cache(found, visit, user, end_ns);
	for (size_t i = 0; i < ADDED_MAX && wants_more; i++) {
		char path[PATH_MAX] = "";

		pthread_mutex_lock(&lock);
		if (added[i])
			snprintf(path, sizeof(path), "%s", added[i]);
		pthread_mutex_unlock(&lock);
		if (*path && strcmp(path, found) != 0)
			wants_more = walk_cache(path, visit, user, end_ns);
	}
}
