/* Runtime directory: where it is, and whether it may be trusted. */
#include "base/runtime_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"

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
	int fd;

	if (create && mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_errno(err, errno, "cannot create %s", path);
	/* Another user may have made it first in /tmp, also as a link. */
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
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
