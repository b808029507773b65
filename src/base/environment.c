/*
 * Changing the environment of a threaded process.
 *
 * setenv() may move the array that another thread's getenv() reads, and free the old one. Here the
 * new array is complete before it replaces the old one, and no array is ever freed: readers are
 * always safe. The array is reused unless other code has replaced it, so any number of changes
 * needs only one.
 */
#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/mutex.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the following */
static char **array;                                     /* the last one that was made here */
static size_t array_capacity;

/* Earlier arrays: a thread may still be reading one. */
struct kept_array {
	struct kept_array *older;
	char *entries[];
};

static struct kept_array *newest;

static size_t count_entries(void)
{
	size_t count = 0;

	while (environ && environ[count])
		count++;
	return count;
}

/* Room for a few entries more. */
static bool make_array(size_t count)
{
	size_t capacity = count + 8;
	struct kept_array *kept = calloc(1, sizeof(*kept) + capacity * sizeof(*kept->entries));

	if (!kept)
		return false;
	kept->older = newest;
	newest = kept;
	if (environ)
		memcpy(kept->entries, environ, count * sizeof(*kept->entries));
	array = kept->entries;
	array_capacity = capacity;
	return true;
}

bool environment_append(char *entry)
{
	MUTEX_HOLD(&lock);
	size_t count = count_entries();
	bool has_room = environ && environ == array && count + 2 <= array_capacity;

	if (has_room || make_array(count)) {
		array[count + 1] = NULL;
		__atomic_store_n(&array[count], entry, __ATOMIC_RELEASE);
		__atomic_store_n(&environ, array, __ATOMIC_RELEASE);
		has_room = true;
	}
	return has_room;
}

void environment_remove(const char *entry)
{
	MUTEX_HOLD(&lock);
	for (char **at = environ; at && *at; at++) {
		if (*at != entry) /* the caller's own string: no other code can have set it */
			continue;
		for (; *at; at++)
			__atomic_store_n(&at[0], at[1], __ATOMIC_RELEASE);
		break;
	}
}

bool environment_is(const char *name, bool wanted)
{
	static const char *const words[][5] = {{"0", "false", "off", "n", "no"},
					       {"1", "true", "on", "y", "yes"}};
	const char *value = environment_get(name);

	for (size_t i = 0; value && i < ARRAY_LENGTH(words[wanted]); i++)
		if (strcasecmp(value, words[wanted][i]) == 0)
			return true;
	return false;
}

bool runtime_directory_path(unsigned index, char *path, size_t capacity)
{
	const char *base = environment_get("XDG_RUNTIME_DIR");
	int length;

	if (index == 0)
		length = base && *base == '/' ? snprintf(path, capacity, "%s/proton", base) : -1;
	else
		length = snprintf(path, capacity, "/tmp/proton-%u", (unsigned)geteuid());
	return length > 0 && (size_t)length < capacity;
}

int runtime_directory_open(const char *path, bool create, int *fd_out, struct proton_error *err)
{
	struct stat st;

	if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, errno, "cannot create %s", path);
	/* Another user may have made it first in /tmp, also as a link. */
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR || errno == EACCES))
		return err_set(err, PROTON_E_PERMISSION,
			       "%s is not a directory of this user; set XDG_RUNTIME_DIR to one",
			       path);
	if (fd < 0)
		return err_errno(err, errno, "cannot open %s", path);
	if (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077)) {
		close(fd);
		return err_set(err, PROTON_E_PERMISSION,
			       "%s belongs to another user, or others may enter it; set "
			       "XDG_RUNTIME_DIR to a directory of your own, or chmod 700 it",
			       path);
	}
	*fd_out = fd;
	return PROTON_OK;
}
