/* Working file: creation, locking, renaming of earlier files, removal. */
#include "format/working_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/guest.h"
#include "format/profile_snapshot.h"
#include "format/profile_view.h"
#include "format/rank.h"
#include "format/rows.h"

#define SUFFIX ".proton"

/* Each failed attempt is another process's success, so this many are never needed. */
#define ATTEMPTS_MAX 10000u

/* No working file has a larger number in its name. */
#define NUMBER_MAX 1000000u

/*
 * In a job of many ranks a file without content belongs to the process that created it, unless it
 * is older than this.
 */
#define STARTUP_MAX_S 60

/* Programs that close inherited descriptors, or count them, rarely look beyond this number. */
#define FIRST_DESCRIPTOR 900

static int length_of_stem(const char *path)
{
	size_t length = strlen(path);
	size_t suffix = strlen(SUFFIX);

	if (length > suffix && strcmp(path + length - suffix, SUFFIX) == 0)
		length -= suffix;
	return (int)length;
}

/* ------------------------------------------------------------------ numbered names */

struct used_names {
	uint32_t last; /* highest number in use; 0: none */
	bool is_used;  /* the wanted number is used by a file other than the ignored one */
};

/* The number of NAME.PID.REST or NAME.PID.NUMBER.REST, given what follows "NAME.PID.". */
static uint32_t number_of(const char *rest)
{
	char *end;

	if (*rest < '1' || *rest > '9')
		return 1;
	unsigned long number = strtoul(rest, &end, 10);
	return *end == '.' && number >= 2 && number <= NUMBER_MAX ? (uint32_t)number : 1;
}

/* Searches for files named after `path` and `pid`; `wanted` and `ignored` are for is_used. */
static struct used_names find_used(const char *path, uint32_t pid, uint32_t wanted,
				   const char *ignored)
{
	struct used_names used = {0};
	const char *base = basename(path);
	const struct dirent *entry;
	AUTO_FREE char *directory = base > path ? strndup(path, (size_t)(base - path))
						: strdup(".");
	char *prefix = NULL;
	DIR *list = directory ? opendir(directory) : NULL;
	int length = asprintf(&prefix, "%.*s.%u.", length_of_stem(base), base, pid);

	while (list && length > 0 && (entry = readdir(list))) {
		const char *name = entry->d_name;

		if (strncmp(name, prefix, (size_t)length) != 0)
			continue;
		uint32_t number = number_of(name + length);
		used.last = number > used.last ? number : used.last;
		if (number == wanted && strcmp(name, ignored) != 0)
			used.is_used = true;
	}
	if (list)
		closedir(list);
	if (length >= 0)
		free(prefix);
	return used;
}

/* "<stem>.<pid>.proton", or with a number starting at 2; NULL: out of memory. */
static char *numbered(const char *path, uint32_t pid, uint32_t number)
{
	int stem = length_of_stem(path);
	char *name;
	int length = number < 2 ? asprintf(&name, "%.*s.%u" SUFFIX, stem, path, pid)
				: asprintf(&name, "%.*s.%u.%u" SUFFIX, stem, path, pid, number);

	return length < 0 ? NULL : name;
}

/* ------------------------------------------------------------------ a file that exists */

static int error_stranger(const struct working_file *file, struct proton_error *err)
{
	return err_set(err, PROTON_E_INVALID,
		       "%s exists and is not a profile; move it or choose another name",
		       file->path);
}

static int error_busy(const struct working_file *file, struct proton_error *err)
{
	return err_set(err, PROTON_E_BUSY, "%s is being written by another process", file->path);
}

static bool has_name(int fd, const char *path)
{
	struct stat own, named;

	return fstat(fd, &own) == 0 && lstat(path, &named) == 0 && own.st_dev == named.st_dev &&
	       own.st_ino == named.st_ino;
}

/* Renames, but never over an existing file: EEXIST. */
static bool rename_to_free(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return true;
	/* Some file systems do not support it; most of those have hard links. */
	return (errno == EINVAL || errno == ENOSYS) && link(from, to) == 0 && unlink(from) == 0;
}

/* Renames the profile at file->path, which this process has locked, to a free name: *moved_out. */
static int move_aside(const struct working_file *file, uint32_t pid, char **moved_out,
		      struct proton_error *err)
{
	uint32_t number = find_used(file->path, pid, 0, "").last + 1;

	for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
		char *to = numbered(file->path, pid, number + i);

		if (!to)
			return err_nomem(err);
		if (rename_to_free(file->path, to)) {
			free(*moved_out);
			*moved_out = to;
			return PROTON_OK;
		}
		if (errno != EEXIST) {
			int status = err_errno(err, errno, "cannot move %s to %s", file->path, to);

			/* A process on another machine was first: locks may be local. */
			if (errno == ENOENT && access(file->path, F_OK) < 0)
				status = PROTON_OK;
			free(to);
			return status;
		}
		free(to);
	}
	return err_set(err, PROTON_E_IO, "cannot move %s: all names are taken", file->path);
}

/* ------------------------------------------------------------------ other machines */

/*
 * The ranks of a job may be on several machines, and some file systems have locks for one machine
 * only (Lustre with localflock). Creating a file is atomic everywhere.
 */
static bool may_be_remote(void)
{
	struct rank_identity identity;

	rank_read(&identity);
	return rank_is_of_many(&identity);
}

static bool is_older_than_startup(const struct stat *st)
{
	return time(NULL) - st->st_mtime > STARTUP_MAX_S;
}

/* True if the incomplete profile was, or may have been, written on another machine. */
static bool is_of_other_host(const char *path, const struct stat *st)
{
	bool is_other = !is_older_than_startup(st); /* the host is one of the first rows */
	char host[256] = "";
	struct profile_view view;
	size_t length;
	AUTO_FREE char *bytes = NULL;

	if (gethostname(host, sizeof(host) - 1) != 0 ||
	    !profile_snapshot_read(path, &bytes, &length))
		return is_other;
	if (profile_view_open(&view, bytes, length, NULL) == PROTON_OK) {
		const struct row_info *info = view.table[TABLE_INFO];

		for (uint64_t i = 0; i < view.rows[TABLE_INFO]; i++) {
			uint32_t unused;

			if (strcmp(profile_view_string(&view, info[i].key, &unused), "host") == 0)
				is_other =
					strcmp(profile_view_string(&view, info[i].value, &unused),
					       host) != 0;
		}
		profile_view_fini(&view);
	}
	return is_other;
}

/* ------------------------------------------------------------------ a file that exists, again */

/* Reads the start of a file into `header`, which is zeros. False: not a profile's. */
static bool read_start(int fd, struct file_header *header, bool *is_unstarted_out)
{
	ssize_t n = pread(fd, header, sizeof(*header), 0);
	bool is_whole = n == (ssize_t)sizeof(*header);
	const char *bytes = (const char *)header;
	struct stat st;

	/* The process was killed during startup. */
	*is_unstarted_out = is_whole && fstat(fd, &st) == 0 &&
			    st.st_size == PROFILE_FILE_HEADER_BYTES && !bytes[0] &&
			    memcmp(bytes, bytes + 1, sizeof(*header) - 1) == 0;
	return *is_unstarted_out ||
	       (is_whole && memcmp(header->magic, PROFILE_FILE_MAGIC, 8) == 0) ||
	       (n > 0 && profile_view_is_packed(header, (size_t)n));
}

/* True if a process of another machine may be writing the file: its lock is not seen here. */
static bool is_remote(const struct working_file *file, const struct file_header *header,
		      bool is_unstarted, const struct stat *st)
{
	if (!may_be_remote())
		return false;
	if (is_unstarted)
		return !is_older_than_startup(st);
	return header->state != PROFILE_FILE_FINISHED && is_of_other_host(file->path, st);
}

/* Frees the name of a non-empty file that this process has locked. */
static int make_way(struct working_file *file, int fd, struct proton_error *err)
{
	AUTO_FREE struct file_header *header = calloc(1, sizeof(*header));
	int status = PROTON_OK;
	bool is_unstarted;
	struct stat st = {0};

	if (!header)
		return err_nomem(err);
	fstat(fd, &st);
	if (!read_start(fd, header, &is_unstarted))
		status = error_stranger(file, err);
	else if (is_remote(file, header, is_unstarted, &st))
		status = error_busy(file, err);
	else if (is_unstarted || (profile_view_rows(header, sizeof(*header), TABLE_NODES) <= 1 &&
				  profile_view_rows(header, sizeof(*header), TABLE_VALUES) <= 1))
		unlink(file->path);
	else
		status = move_aside(file, header->pid,
				    header->state == PROFILE_FILE_FINISHED ? &file->earlier
									   : &file->leftover,
				    err);
	if (status == PROTON_OK && file->earlier)
		file->earlier_mode = st.st_mode & 0777;
	return status;
}

/* ------------------------------------------------------------------ create */

/* Opens the name, new or existing. errno EAGAIN: the file was removed in between. */
static int open_name(const char *path, bool must_be_new, bool *is_new_out)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	*is_new_out = fd >= 0;
	if (fd < 0 && errno == EEXIST && !must_be_new) {
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		if (fd < 0 && errno == ENOENT)
			errno = EAGAIN;
	}
	return fd;
}

/* Locks a file. Another process may hold the lock of a new one for a moment, to look at it. */
static bool lock_file(int fd, bool is_new)
{
	static const struct timespec step = {.tv_nsec = 1000000};
	int attempts = is_new && may_be_remote() ? 1000 : 1;

	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return is_new; /* some file systems have no locks */
		if (--attempts == 0)
			return false;
		nanosleep(&step, NULL);
	}
	return true;
}

/*
 * One attempt to get file->path. On PROTON_OK *fd_out is the empty, locked file, or -1: something
 * has changed, try again.
 */
static int try_name(struct working_file *file, bool must_be_new, int *fd_out,
		    struct proton_error *err)
{
	bool is_new;
	int fd = open_name(file->path, must_be_new, &is_new);
	int status = PROTON_OK;
	struct stat st;

	*fd_out = -1;
	if (fd < 0) {
		if (errno == EAGAIN)
			return PROTON_OK;
		if (errno == EEXIST)
			return error_busy(file, err);
		if (errno == ELOOP)
			return error_stranger(file, err);
		return err_errno(err, errno, "cannot create %s", file->path);
	}
	bool is_locked = lock_file(fd, is_new);
	if (fstat(fd, &st) < 0)
		status = err_errno(err, errno, "cannot create %s", file->path);
	else if (is_locked && !S_ISREG(st.st_mode))
		status = error_stranger(file, err);
	/* An existing file on a file system without locks is left to its writer. */
	else if (!is_locked ||
		 (!is_new && !st.st_size && may_be_remote() && !is_older_than_startup(&st)))
		status = error_busy(file, err);
	else if (has_name(fd, file->path) && st.st_size)
		status = make_way(file, fd, err);
	else if (has_name(fd, file->path))
		*fd_out = fd;
	if (*fd_out < 0)
		close(fd);
	return status;
}

int working_file_move_high(int fd)
{
	struct rlimit limit = {.rlim_cur = FIRST_DESCRIPTOR};

	getrlimit(RLIMIT_NOFILE, &limit);
	return descriptor_move(fd, limit.rlim_cur > FIRST_DESCRIPTOR + FIRST_DESCRIPTOR / 8
					   ? FIRST_DESCRIPTOR
					   : (int)(limit.rlim_cur - limit.rlim_cur / 8));
}

static int take_name(struct working_file *file, bool must_be_new, struct proton_error *err)
{
	struct stat st;
	int fd = -1;

	for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
		TRY(try_name(file, must_be_new, &fd, err));
		if (fd < 0)
			continue;
		if (file->earlier)
			(void)fchmod(fd, file->earlier_mode);
		file->fd = working_file_move_high(fd);
		if (fstat(file->fd, &st) == 0) {
			file->device = st.st_dev;
			file->inode = st.st_ino;
		}
		return PROTON_OK;
	}
	return error_busy(file, err);
}

int working_file_create(struct working_file *file, const char *path, struct proton_error *err)
{
	*file = (struct working_file){.fd = -1, .path = strdup(path)};
	if (!file->path)
		return err_nomem(err);
	int status = take_name(file, false, err);
	if (status != PROTON_OK)
		working_file_close(file);
	return status;
}

char *working_file_own_name(const char *path)
{
	uint32_t pid = (uint32_t)getpid();
	char *name = numbered(path, pid, find_used(path, pid, 0, "").last + 1);

	if (name)
		name[length_of_stem(name)] = '\0';
	return name;
}

int working_file_create_own(struct working_file *file, const char *path, struct proton_error *err)
{
	uint32_t pid = (uint32_t)getpid();
	uint32_t number = find_used(path, pid, 0, "").last + 1;
	int status = PROTON_E_BUSY;

	*file = (struct working_file){.fd = -1};
	for (uint32_t i = 0; i < ATTEMPTS_MAX && status == PROTON_E_BUSY; i++, number++) {
		free(file->path);
		file->path = numbered(path, pid, number);
		if (!file->path)
			return err_nomem(err);
		status = take_name(file, true, err);
		/* A process that had the number may just have ended and left its output. */
		if (status == PROTON_OK &&
		    find_used(path, pid, number, basename(file->path)).is_used) {
			working_file_remove(file);
			close(file->fd);
			file->fd = -1;
			status = error_busy(file, err);
		}
	}
	if (status != PROTON_OK)
		working_file_close(file);
	return status;
}

/* ------------------------------------------------------------------ use */

static bool has_descriptor(const struct working_file *file, struct stat *st)
{
	return fstat(file->fd, st) == 0 && st->st_dev == file->device && st->st_ino == file->inode;
}

/* posix_fallocate(), but not one that the program or a library has put in front of libc's. */
static int allocate(int fd, off_t offset, off_t bytes)
{
	struct size_signal held;
	int errnum = EINTR;

	_Static_assert(sizeof(long) == sizeof(off_t), "an off_t is one argument");
	size_signal_hold(&held);
	for (int attempt = 0; attempt < 100 && errnum == EINTR; attempt++)
		errnum = syscall(SYS_fallocate, fd, 0, offset, bytes) == 0 ? 0 : errno;
	if (errnum == EOPNOTSUPP || errnum == ENOSYS)
		errnum = posix_fallocate(fd, offset, bytes);
	size_signal_release(&held);
	return errnum;
}

int working_file_map(const struct working_file *file, struct region *space, off_t offset,
		     size_t bytes, bool *is_allocated_out)
{
	struct stat st;

	*is_allocated_out = false;
	if (!has_descriptor(file, &st))
		return EBADF;
	if (st.st_size < offset)
		return ENODATA;
	int errnum = allocate(file->fd, offset, (off_t)bytes);
	if (errnum)
		return errnum;
	*is_allocated_out = true;
	return region_map(space, bytes, file->fd, offset);
}

bool working_file_has_name(const struct working_file *file)
{
	struct stat st;

	return lstat(file->path, &st) == 0 && st.st_dev == file->device && st.st_ino == file->inode;
}

void working_file_remove(const struct working_file *file)
{
	if (working_file_has_name(file))
		unlink(file->path);
	if (file->earlier)
		rename_to_free(file->earlier, file->path);
}

void working_file_drop_earlier(struct working_file *file)
{
	if (file->earlier)
		unlink(file->earlier);
	free(file->earlier);
	file->earlier = NULL;
}

void working_file_close(struct working_file *file)
{
	struct stat st;

	if (file->fd >= 0 && has_descriptor(file, &st))
		close(file->fd);
	FREE_ALL(file->path, file->leftover, file->earlier);
	*file = (struct working_file){.fd = -1};
}
