/* Child processes of an injected program: reports to the first process, and output names. */
#include "cli/inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/target.h"
#include "format/working_file.h"

#define LEDGER_NAME "proton-children-1"
#define RUNNING_MAX 256
#define SILENT_NS 500000000u /* for a process that may not exit at all */
#define ENDING_NS 5000000000u
#define STEP_NS 2000000

struct ledger {
	pthread_mutex_t
		lock; /* guards `reported` and `is_closed`; survives the death of its owner */
	bool is_closed;
	struct children reported;
	_Atomic int64_t running[RUNNING_MAX]; /* twice the process id, + 1: exiting; 0: free */
};

static struct ledger *invited; /* ledger of the first process */
static struct ledger *joined;  /* ledger of `root`, where this process is in `running` */
static _Atomic int64_t *place;

/* ------------------------------------------------------------------ the memory */

/* NULL if it is something else. */
static struct ledger *map_ledger(int fd)
{
	struct ledger *ledger = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size == (off_t)sizeof(*ledger))
		ledger = mmap(NULL, sizeof(*ledger), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return ledger == MAP_FAILED ? NULL : ledger;
}

static void unmap_ledger(struct ledger *ledger)
{
	if (ledger)
		munmap(ledger, sizeof(*ledger));
}

/* The ledger of another process; NULL: it has exited, or has none. */
static struct ledger *find_ledger(pid_t process)
{
	static const char wanted[] = "/memfd:" LEDGER_NAME " (deleted)";
	struct ledger *ledger = NULL;
	struct dirent *entry;
	char path[64];

	if (process <= 0)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)process);
	DIR *stream = opendir(path);
	while (stream && !ledger && (entry = readdir(stream))) {
		char text[sizeof(wanted)];
		ssize_t length = readlinkat(dirfd(stream), entry->d_name, text, sizeof(text));

		if (length != sizeof(wanted) - 1 || memcmp(text, wanted, (size_t)length) != 0)
			continue;
		int fd = openat(dirfd(stream), entry->d_name, O_RDWR | O_CLOEXEC);
		ledger = map_ledger(fd);
		if (fd >= 0)
			close(fd);
	}
	if (stream)
		closedir(stream);
	return ledger;
}

void children_invite(void)
{
	pthread_mutexattr_t attributes;
	int fd = memfd_create(LEDGER_NAME, MFD_CLOEXEC);

	if (invited || fd < 0 || ftruncate(fd, sizeof(*invited)) < 0 ||
	    !(invited = map_ledger(fd))) {
		if (fd >= 0)
			close(fd);
		return;
	}
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&invited->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	working_file_move_high(fd); /* stays open for other processes to find */
}

static void lock_ledger(struct ledger *ledger)
{
	if (pthread_mutex_lock(&ledger->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&ledger->lock);
}

/* ------------------------------------------------------------------ a child */

void children_enter(pid_t root)
{
	int64_t entry = (int64_t)getpid() * 2;

	unmap_ledger(joined); /* of the process that this one was forked from */
	place = NULL;
	joined = find_ledger(root);
	for (size_t i = 0; joined && !place && i < RUNNING_MAX; i++) {
		int64_t none = 0;

		if (atomic_compare_exchange_strong(&joined->running[i], &none, entry))
			place = &joined->running[i];
	}
}

void children_end_begins(void)
{
	if (place)
		atomic_store(place, (int64_t)getpid() * 2 + 1);
}

void children_leave(void)
{
	if (place)
		atomic_store(place, 0);
	place = NULL;
	unmap_ledger(joined);
	joined = NULL;
}

bool children_report(pid_t root, const char *part, const char *summary)
{
	/* Search again: it may have exited, or run another program now. */
	struct ledger *ledger = find_ledger(root);

	if (!ledger)
		return false;
	lock_ledger(ledger);
	bool ok = !ledger->is_closed;
	if (ok && ledger->reported.count++ == 0) {
		snprintf(ledger->reported.first, sizeof(ledger->reported.first), "%s", part);
		snprintf(ledger->reported.summary, sizeof(ledger->reported.summary), "%s", summary);
	}
	pthread_mutex_unlock(&ledger->lock);
	unmap_ledger(ledger);
	return ok;
}

/* ------------------------------------------------------------------ the first process */

/* False for zombies: the program has not waited for it yet. */
static bool is_alive(int64_t process)
{
	char text[512], *end;

	snprintf(text, sizeof(text), "/proc/%lld/stat", (long long)process);
	int fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length < 0)
		return false;
	text[length] = '\0';
	end = strrchr(text, ')'); /* the name may contain any character */
	return end && !strchr("ZX", end[1] ? end[2] : '\0');
}

static uint64_t patience(bool is_by_signal)
{
	uint64_t silent = is_by_signal ? SILENT_NS : 0;
	uint64_t longest = 0;

	for (size_t i = 0; invited && i < RUNNING_MAX; i++) {
		int64_t entry = atomic_load(&invited->running[i]);
		uint64_t wanted = entry & 1 ? ENDING_NS : silent;

		if (entry && wanted > longest && is_alive(entry / 2))
			longest = wanted;
	}
	return longest;
}

void children_wait(bool is_by_signal)
{
	static const struct timespec step = {.tv_nsec = STEP_NS};
	uint64_t begin = clock_monotonic_ns();

	while (clock_monotonic_ns() - begin < patience(is_by_signal))
		nanosleep(&step, NULL);
}

void children_gather(struct children *children)
{
	*children = (struct children){0};
	if (!invited)
		return;
	lock_ledger(invited);
	invited->is_closed = true;
	*children = invited->reported;
	pthread_mutex_unlock(&invited->lock);
	children->first[sizeof(children->first) - 1] = '\0';
	children->summary[sizeof(children->summary) - 1] = '\0';
}

/* Replaces `.PART.` by `.` in the file name of the summary. */
static void rename_in(char *summary, const char *own)
{
	char part[80];
	char *last = NULL;
	size_t length = (size_t)snprintf(part, sizeof(part), ".%s.", own);

	for (char *at = summary; (at = strstr(at, part)); at++)
		last = at;
	if (last)
		memmove(last + 1, last + length, strlen(last + length) + 1);
}

void children_take_name(const char *base, struct children *children)
{
	const char *slash = strrchr(base, '/');
	char directory[PATH_MAX], prefix[NAME_MAX + 32];
	size_t length = (size_t)snprintf(prefix, sizeof(prefix), "%s.%s.", slash ? slash + 1 : base,
					 children->first);
	bool is_renamed = false;
	struct dirent *entry;

	snprintf(directory, sizeof(directory), "%.*s", (int)(slash ? slash - base + 1 : 2),
		 slash ? base : "./");
	DIR *stream = opendir(directory);
	while (stream && (entry = readdir(stream))) {
		char to[PATH_MAX];

		if (length >= sizeof(prefix) || strncmp(entry->d_name, prefix, length) != 0 ||
		    snprintf(to, sizeof(to), "%s.%s", base, entry->d_name + length) >= PATH_MAX)
			continue;
		if (renameat2(dirfd(stream), entry->d_name, AT_FDCWD, to,
			      target_env_no_clobber() ? RENAME_NOREPLACE : 0) == 0)
			is_renamed = true;
	}
	if (stream)
		closedir(stream);
	if (is_renamed)
		rename_in(children->summary, children->first);
}
