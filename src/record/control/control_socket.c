/*
 * Control socket: its name appears when it is ready, so a socket that refuses connections belongs
 * to a process that has ended. Names are removed only under a lock on the directory.
 */
#include "record/control/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/runtime_directory.h"

#define BACKLOG 64
#define NAMES_MAX 16 /* containers with their own process ids may share a directory */

/* ThreadSanitizer expects that threads share their descriptors. */
#if defined(__SANITIZE_THREAD__)
#define IS_WATCHED true
#else
#define IS_WATCHED false
#endif

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

void control_socket_leave_descriptors(void)
{
	int fd;

	/* Some containers forbid unshare() and allow this call; kernels before 5.9 lack it. */
	if (IS_WATCHED || syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, UNSHARE_TABLE) < 0)
		return;
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int stream = 0; fd >= 0 && stream <= STDERR_FILENO; stream++)
		dup2(fd, stream); /* or a reader of the program's output would wait for this one */
	if (fd > STDERR_FILENO)
		close(fd);
}

/* Addresses are short: the directory is named by its descriptor. */
static void fill_address(struct sockaddr_un *address, int directory, const char *name)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/thread-self/fd/%d/%s",
		 directory, name);
}

static int make_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Connects and leaves. False if no process listens there. */
static bool touch_name(int directory, const char *name)
{
	struct sockaddr_un address;
	int fd = make_socket();
	bool is_refused;

	fill_address(&address, directory, name);
	is_refused = fd >= 0 &&
		     connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
		     errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return !is_refused;
}

void control_socket_touch(const char *path)
{
	const char *name = strrchr(path, '/');
	char parent[PATH_MAX];
	int directory;

	snprintf(parent, sizeof(parent), "%.*s", (int)(name - path), path);
	directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return;
	touch_name(directory, name + 1);
	close(directory);
}

/* Gives the socket its name; false, with errno, if it is taken or there can be none. */
static bool take_name(int directory, const char *temporary, const char *name)
{
	if (linkat(directory, temporary, directory, name, 0) == 0)
		return true;
	if (errno != EEXIST)
		return false;
	if (flock(directory, LOCK_EX | LOCK_NB) == 0) {
		if (!touch_name(directory, name))
			unlinkat(directory, name, 0);
		flock(directory, LOCK_UN);
	}
	return linkat(directory, temporary, directory, name, 0) == 0;
}

static int bind_socket(struct control_socket *socket, const char *label, struct proton_error *err)
{
	struct sockaddr_un address;
	char temporary[32];
	bool is_named = false;

	snprintf(temporary, sizeof(temporary), ".%d", (int)getpid());
	fill_address(&address, socket->directory, temporary);
	unlinkat(socket->directory, temporary, 0);
	if (bind(socket->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, errno, "cannot make the control socket");
	if (fchmodat(socket->directory, temporary, 0600, 0) == 0 &&
	    listen(socket->fd, BACKLOG) == 0)
		errno = EEXIST;
	for (int i = 1; i <= NAMES_MAX && !is_named && errno == EEXIST; i++) {
		if (i == 1)
			snprintf(socket->name, sizeof(socket->name), "%d.%s", (int)getpid(), label);
		else
			snprintf(socket->name, sizeof(socket->name), "%d-%d.%s", (int)getpid(), i,
				 label);
		is_named = take_name(socket->directory, temporary, socket->name);
	}
	if (!is_named)
		err_errno(err, errno, "cannot name the control socket %s", socket->name);
	unlinkat(socket->directory, temporary, 0);
	return is_named ? PROTON_OK : PROTON_E_IO;
}

int control_socket_open(struct control_socket *socket, const char *label, char *path,
			size_t capacity, struct proton_error *err)
{
	char directory[256];
	int status = err_set(err, PROTON_E_IO,
			     "there is no directory for the control socket; set "
			     "XDG_RUNTIME_DIR to one of this user");

	*socket = (struct control_socket){.fd = -1, .directory = -1};
	for (unsigned i = 0; i < RUNTIME_DIRECTORY_COUNT && status != PROTON_OK; i++)
		if (runtime_directory_path(i, directory, sizeof(directory)))
			status = runtime_directory_open(directory, true, &socket->directory, err);
	if (status != PROTON_OK)
		return status;
	socket->fd = make_socket();
	status = socket->fd < 0 ? err_errno(err, errno, "cannot make the control socket")
				: bind_socket(socket, label, err);
	if (status == PROTON_OK) {
		snprintf(path, capacity, "%s/%s", directory, socket->name);
	} else {
		*socket->name = '\0';
		control_socket_close(socket);
	}
	return status;
}

void control_socket_close(struct control_socket *socket)
{
	if (*socket->name)
		unlinkat(socket->directory, socket->name, 0);
	if (socket->fd >= 0)
		close(socket->fd);
	if (socket->directory >= 0)
		close(socket->directory);
	*socket = (struct control_socket){.fd = -1, .directory = -1};
}

bool control_socket_is_own_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       peer.uid == geteuid();
}
