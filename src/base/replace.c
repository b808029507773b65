/* Atomic file replacement through a locked temporary file. */
#include "base/replace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/guest.h"
#include "base/hash.h"

/*
 * ".BASE.TOKEN.tmp": BASE is the name of the file to replace, cut to a length that every file
 * system allows. TOKEN is 8 random digits and an 8-digit checksum of all before them: no file of
 * the user has such a name by chance.
 */
#define BASE_MAX 100
#define RANDOM_DIGITS 8
#define TOKEN_DIGITS 16
#define SUFFIX ".tmp"
#define ATTEMPTS 100

/* The directory of `path`, malloc'd. */
static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* ------------------------------------------------------------------ names of temporary files */

static uint32_t check_digits(const char *name, size_t length)
{
	return (uint32_t)hash_stored(name, length);
}

/* A new name next to `path`, malloc'd. */
static char *temporary_name(const char *path)
{
	const char *base = basename(path);
	char name[1 + BASE_MAX + 1 + TOKEN_DIGITS + sizeof(SUFFIX)], *whole;
	uint64_t seed = clock_monotonic_ns() ^ (uint64_t)getpid() << 32; /* the hash is keyed */
	int length = snprintf(name, sizeof(name), ".%.*s.%08x", BASE_MAX, base,
			      (uint32_t)hash_u64(seed));

	snprintf(name + length, sizeof(name) - (size_t)length, "%08x" SUFFIX,
		 check_digits(name, (size_t)length));
	return asprintf(&whole, "%.*s%s", (int)(base - path), path, name) < 0 ? NULL : whole;
}

/* True if `name` is a temporary file of `base`, or of a name that begins with `base` and a dot. */
static bool is_temporary_of(const char *name, const char *base)
{
	size_t length = strlen(name);
	size_t begin = strnlen(base, BASE_MAX);
	size_t tail = TOKEN_DIGITS + sizeof(SUFFIX) - 1;
	char digits[RANDOM_DIGITS + 1];

	if (length < 1 + begin + 1 + tail || name[0] != '.' ||
	    strncmp(name + 1, base, begin) != 0 || name[1 + begin] != '.' ||
	    name[length - tail - 1] != '.' || strcmp(name + length - 4, SUFFIX) != 0)
		return false;
	length -= tail - RANDOM_DIGITS;
	snprintf(digits, sizeof(digits), "%08x", check_digits(name, length));
	return strncmp(name + length, digits, RANDOM_DIGITS) == 0;
}

/* ------------------------------------------------------------------ leftovers of crashes */

static void remove_if_stale(int directory, const char *name)
{
	int fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat opened, named;

	if (fd < 0)
		return;
	/* A writer holds the lock for as long as it lives. */
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 &&
	    S_ISREG(opened.st_mode) && opened.st_nlink == 1 && opened.st_uid == geteuid() &&
	    fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	    named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
		unlinkat(directory, name, 0);
	close(fd);
}

void file_replace_clean(const char *path)
{
	AUTO_FREE char *name = directory_of(path);
	DIR *directory = name ? opendir(name) : NULL;
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (is_temporary_of(entry->d_name, basename(path)))
			remove_if_stale(dirfd(directory), entry->d_name);
	if (directory)
		closedir(directory);
}

/* ------------------------------------------------------------------ begin */

int file_replace_target(const char *path, char **target_out, bool *exists_out, struct stat *st_out,
			struct proton_error *err)
{
	struct stat link;

	*exists_out = stat(path, st_out) == 0;
	if (!*exists_out && errno != ENOENT)
		return err_errno(err, errno, "cannot write %s", path);
	if (!*exists_out && lstat(path, &link) == 0)
		return err_set(err, PROTON_E_INVALID,
			       "cannot write %s: it is a symbolic link to a file that does not "
			       "exist; remove the link or create the file",
			       path);
	if (*exists_out && !S_ISREG(st_out->st_mode))
		return err_set(err, PROTON_E_INVALID, "cannot write %s: it is %s", path,
			       S_ISDIR(st_out->st_mode) ? "a directory" : "not a regular file");
	if (*exists_out && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
		return err_errno(err, errno, "cannot write %s", path);
	char *target = *exists_out ? realpath(path, NULL) : strdup(path);
	if (!target)
		return err_errno(err, errno, "cannot write %s", path);
	*target_out = target;
	return PROTON_OK;
}

/* Creates a new, locked file; -1: errno. */
static int create_temporary(struct file_replace *file)
{
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		struct stat st;

		free(file->temporary);
		file->temporary = temporary_name(file->path);
		if (!file->temporary) {
			errno = ENOMEM;
			return -1;
		}
		int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			      file->has_earlier ? 0600 : 0666);
		/* Never as a closed standard stream: messages would go into it. */
		fd = descriptor_move(fd, STDERR_FILENO + 1);
		if (fd < 0 && errno != EEXIST)
			return -1;
		if (fd < 0)
			continue;
		/* Without locks, they stay. With locks, a cleaner may have been faster. */
		if ((flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) &&
		    fstat(fd, &st) == 0 && st.st_nlink > 0)
			return fd;
		close(fd);
	}
	errno = EEXIST;
	return -1;
}

int file_replace_begin(struct file_replace *file, const char *path, struct proton_error *err)
{
	*file = (struct file_replace){.out = {.fd = -1}};
	int status =
		file_replace_target(path, &file->path, &file->has_earlier, &file->earlier, err);
	if (status != PROTON_OK)
		return status;
	int fd = create_temporary(file);
	if (fd < 0) {
		status = err_errno(err, errno, "cannot write %s", path);
		free(file->path);
		free(file->temporary);
		*file = (struct file_replace){.out = {.fd = -1}};
		return status;
	}
	out_init(&file->out, fd);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ end */

static void replace_fini(struct file_replace *file)
{
	if (file->out.fd >= 0)
		close(file->out.fd);
	out_fini(&file->out);
	free(file->path);
	free(file->temporary);
	*file = (struct file_replace){.out = {.fd = -1}};
}

/* As far as the user's rights allow: a user's file stays theirs when root replaces it. */
static void keep_permissions(const struct file_replace *file)
{
	const struct stat *earlier = &file->earlier;
	int fd = file->out.fd;
	struct stat st;

	if (!file->has_earlier || fstat(fd, &st) < 0)
		return;
	if ((st.st_uid != earlier->st_uid || st.st_gid != earlier->st_gid) &&
	    fchown(fd, earlier->st_uid, earlier->st_gid) < 0 &&
	    fchown(fd, (uid_t)-1, earlier->st_gid) < 0)
		errno = 0; /* then a file of the caller, with the same permissions */
	(void)fchmod(fd, earlier->st_mode & 0777);
}

/* Network file systems report a full disk at close(); the lock stays with the original. */
static int report_late_errors(int fd)
{
	int copy = dup(fd);

	if (copy < 0)
		return fsync(fd);
	return close(copy) < 0 && errno != EINTR ? -1 : 0;
}

static int move_into_place(const struct file_replace *file)
{
	if (!file->is_exclusive)
		return rename(file->temporary, file->path);
	if (renameat2(AT_FDCWD, file->temporary, AT_FDCWD, file->path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (link(file->temporary, file->path) < 0)
		return -1;
	return unlink(file->temporary);
}

int file_replace_commit(struct file_replace *file, struct proton_error *err)
{
	int status = out_finish(&file->out, NULL);

	if (status != PROTON_OK) {
		status = err_errno(err, file->out.errnum, "cannot write %s", file->path);
		file_replace_abandon(file);
		return status;
	}
	keep_permissions(file);
	/* Locked until the file has its name: unlocked, it looks like the leftover of a crash. */
	if (report_late_errors(file->out.fd) < 0 || move_into_place(file) < 0) {
		status = err_errno(err, errno, "cannot write %s", file->path);
		unlink(file->temporary);
	}
	replace_fini(file);
	return status;
}

void file_replace_abandon(struct file_replace *file)
{
	if (file->temporary)
		unlink(file->temporary);
	replace_fini(file);
}

int file_replace_end(struct file_replace *file, int status, struct proton_error *err)
{
	if (status == PROTON_OK)
		return file_replace_commit(file, err);
	file_replace_abandon(file);
	return status;
}
