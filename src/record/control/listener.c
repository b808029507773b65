/*
 * Listener: connections. Each brings one message within a time limit and gets one reply. There are
 * few connections at a time and a limit of new ones per second: whatever clients do, the listener
 * takes little memory and time from the program. Refused connections are counted for `status`.
 */
#include "record/control/listener.h"
#include "base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/environment.h"
#include "base/guest.h"
#include "base/mutex.h"

#define CONNECTIONS_MAX 16
#define ACCEPTS_PER_SECOND 200
#define MESSAGE_NS 2000000000ull /* a client sends its request within this time */
#define SECOND_NS 1000000000ull
#define MS_NS 1000000ull
#define JOB_POLL_MS 10
#define END_STEPS_MAX 400 /* of 10 ms */
#define BACKLOG 64
#define NAMES_MAX 16 /* containers with their own process ids may share a directory */

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE */

/* ------------------------------------------------------------------ the socket */

struct connection {
	int fd;
	uint64_t since_ns;
};

/*
 * The socket of this process in the user's runtime directory: PID.LABEL. Its name appears when it
 * is ready, so a socket that refuses connections belongs to a process that has ended. Names are
 * removed only under a lock on the directory.
 */
struct listener {
	struct control *control;
	int fd;                                         /* listening, does not block */
	int directory;                                  /* the socket's; -1: closed */
	char name[96];                                  /* the socket's, in the directory */
	struct stat identity;                           /* the socket's */
	struct connection connections[CONNECTIONS_MAX]; /* that send their message, oldest first */
	nfds_t count;
	int job_fd;         /* gets the reply of the job; -1: there is none */
	uint64_t second_ns; /* start of the second in which `accepts` are counted */
	unsigned accepts;
};

/* Gives the thread its own descriptors, with /dev/null as streams; if the kernel allows it. */
static void leave_descriptors(void)
{
	/* Some containers forbid unshare() and allow this call; kernels before 5.9 lack it. */
	if (HAS_THREAD_SANITIZER ||
	    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, UNSHARE_TABLE) < 0)
		return;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
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

	fill_address(&address, directory, name);
	bool is_refused = fd >= 0 &&
			  connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
			  errno == ECONNREFUSED;
	if (fd >= 0)
		close(fd);
	return !is_refused;
}

void listener_wake(const struct control *control)
{
	const char *name = strrchr(control->path, '/');
	char parent[PATH_MAX];

	snprintf(parent, sizeof(parent), "%.*s", (int)(name - control->path), control->path);
	int directory = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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

static int bind_socket(struct listener *listener, struct proton_error *err)
{
	const char *label = listener->control->label;
	struct sockaddr_un address;
	char temporary[32];
	bool is_named = false;

	snprintf(temporary, sizeof(temporary), ".%d", (int)getpid());
	fill_address(&address, listener->directory, temporary);
	unlinkat(listener->directory, temporary, 0);
	if (bind(listener->fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, errno, "cannot make the control socket");
	if (fchmodat(listener->directory, temporary, 0600, 0) == 0 &&
	    listen(listener->fd, BACKLOG) == 0)
		errno = EEXIST;
	for (int i = 1; i <= NAMES_MAX && !is_named && errno == EEXIST; i++) {
		if (i == 1)
			snprintf(listener->name, sizeof(listener->name), "%d.%s", (int)getpid(),
				 label);
		else
			snprintf(listener->name, sizeof(listener->name), "%d-%d.%s", (int)getpid(),
				 i, label);
		is_named = take_name(listener->directory, temporary, listener->name);
	}
	if (!is_named)
		err_errno(err, errno, "cannot name the control socket %s", listener->name);
	unlinkat(listener->directory, temporary, 0);
	return is_named ? PROTON_OK : PROTON_E_IO;
}

static void close_socket(struct listener *listener)
{
	if (*listener->name)
		unlinkat(listener->directory, listener->name, 0);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->directory >= 0)
		close(listener->directory);
}

/* Opens the socket and stores its path in `path`. */
static int open_socket(struct listener *listener, char *path, struct proton_error *err)
{
	char directory[256];
	int status = err_set(err, PROTON_E_IO,
			     "there is no directory for the control socket; set "
			     "XDG_RUNTIME_DIR to one of this user");

	for (unsigned i = 0; i < RUNTIME_DIRECTORY_COUNT && status != PROTON_OK; i++)
		if (runtime_directory_path(i, directory, sizeof(directory)))
			status = runtime_directory_open(directory, true, &listener->directory, err);
	if (status != PROTON_OK)
		return status;
	listener->fd = make_socket();
	if (listener->fd < 0 || fstat(listener->fd, &listener->identity) < 0)
		status = err_errno(err, errno, "cannot make the control socket");
	else
		status = bind_socket(listener, err);
	if (status == PROTON_OK) {
		snprintf(path, CONTROL_PATH_MAX, "%s/%s", directory, listener->name);
	} else {
		*listener->name = '\0';
		close_socket(listener);
	}
	return status;
}

static bool is_own_user(int fd)
{
	struct ucred peer;
	socklen_t length = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
	       peer.uid == geteuid();
}

/* ------------------------------------------------------------------ connections */

static void drop_connection(struct listener *listener, nfds_t index)
{
	ARRAY_REMOVE(listener->connections, listener->count, index);
}

static void refuse_connection(struct listener *listener, nfds_t index)
{
	close(listener->connections[index].fd);
	drop_connection(listener, index);
	MUTEX_HOLD(&listener->control->lock);
	listener->control->refused++;
}

/* A client that does not read its reply loses it. */
static void send_reply(int fd, const char *text, size_t length)
{
	send(fd, text, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

static void send_failure(int fd, const char *text)
{
	char reply[sizeof(struct proton_error) + 1];
	int length = snprintf(reply, sizeof(reply), "%c%s", CONTROL_FAILED, text);

	send_reply(fd, reply, (size_t)length);
}

/* The reply to a command while another one is carried out. The lock is held. */
static void send_busy(int fd, const struct control *control, enum control_command command)
{
	char reply[160];
	int length = snprintf(reply, sizeof(reply), "%cbusy with the command %s for %.1f s%s",
			      command == CONTROL_STATUS ? CONTROL_OK : CONTROL_FAILED,
			      control_command_name(control->command),
			      (double)(clock_monotonic_ns() - control->asked_ns) / SECOND_NS,
			      command == CONTROL_STATUS ? "" : "; try again later");

	send_reply(fd, reply, (size_t)length);
}

/* Takes the request of a connection, which then belongs to the job or is closed. */
static void take_request(struct listener *listener, nfds_t index)
{
	static _Thread_local char bytes[CONTROL_REQUEST_MAX];
	struct control *control = listener->control;
	struct control_request request;
	struct proton_error err;
	int fd = listener->connections[index].fd;
	ssize_t length = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_TRUNC);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length <= 0) {
		refuse_connection(listener, index); /* it has ended */
		return;
	}
	drop_connection(listener, index);
	if (control_request_read(bytes, (size_t)length, &request, &err) != PROTON_OK) {
		send_failure(fd, err.text);
		return;
	}
	MUTEX_HOLD(&control->lock);
	if (control->state != CONTROL_JOB_NONE) {
		send_busy(fd, control, request.command);
	} else {
		memcpy(control->request, bytes, (size_t)length);
		control->request_length = (size_t)length;
		control->command = request.command;
		control->asked_ns = clock_monotonic_ns();
		control->state = CONTROL_JOB_ASKED;
		listener->job_fd = fd;
		pthread_cond_broadcast(&control->changed);
	}
}

static void finish_job(struct listener *listener)
{
	struct control *control = listener->control;

	MUTEX_HOLD(&control->lock);
	if (control->state == CONTROL_JOB_DONE) {
		send_reply(listener->job_fd, control->reply, control->reply_length);
		listener->job_fd = -1;
		control->state = CONTROL_JOB_NONE;
	}
}

/* Without its own table the number may be a file of the program by now. */
static bool is_own_socket(const struct listener *listener)
{
	struct stat st;

	return fstat(listener->fd, &st) == 0 && st.st_dev == listener->identity.st_dev &&
	       st.st_ino == listener->identity.st_ino;
}

static void accept_connections(struct listener *listener)
{
	while (listener->accepts < ACCEPTS_PER_SECOND) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0 && errno != EAGAIN)
			listener->accepts = ACCEPTS_PER_SECOND; /* no descriptor: later again */
		if (fd < 0)
			return;
		listener->accepts++;
		/* The newest client is served: the oldest should have sent its request. */
		if (listener->count == CONNECTIONS_MAX)
			refuse_connection(listener, 0);
		listener->connections[listener->count++] =
			(struct connection){.fd = fd, .since_ns = clock_monotonic_ns()};
		if (!is_own_user(fd))
			refuse_connection(listener, listener->count - 1);
	}
}

/* Milliseconds to wait for events; -1: no limit. */
static int choose_timeout(const struct listener *listener, uint64_t now)
{
	uint64_t until = UINT64_MAX;

	if (listener->job_fd >= 0)
		return JOB_POLL_MS;
	if (listener->count)
		until = listener->connections[0].since_ns + MESSAGE_NS;
	if (listener->accepts >= ACCEPTS_PER_SECOND && until > listener->second_ns + SECOND_NS)
		until = listener->second_ns + SECOND_NS;
	if (until == UINT64_MAX)
		return -1;
	return until <= now ? 0 : (int)((until - now) / MS_NS) + 1;
}

/* Waits for events, and handles them. False: the socket is gone. */
static bool serve(struct listener *listener)
{
	struct pollfd events[CONNECTIONS_MAX + 1];
	uint64_t now = clock_monotonic_ns();
	nfds_t count = listener->count;

	if (now - listener->second_ns >= SECOND_NS) {
		listener->second_ns = now;
		listener->accepts = 0;
	}
	bool is_open = listener->accepts < ACCEPTS_PER_SECOND;
	for (nfds_t i = 0; i < count; i++)
		events[i] = (struct pollfd){listener->connections[i].fd, POLLIN, 0};
	events[count] = (struct pollfd){is_open ? listener->fd : -1, POLLIN, 0};
	if (poll(events, count + 1, choose_timeout(listener, now)) < 0)
		return errno == EINTR || errno == ENOMEM;
	finish_job(listener);
	now = clock_monotonic_ns();
	for (nfds_t i = count; i-- > 0;) {
		if (events[i].revents)
			take_request(listener, i);
		else if (now - listener->connections[i].since_ns >= MESSAGE_NS)
			refuse_connection(listener, i);
	}
	if (!events[count].revents)
		return true;
	if (!is_own_socket(listener))
		return false;
	accept_connections(listener);
	return true;
}

static bool must_end(struct control *control)
{
	MUTEX_HOLD(&control->lock);
	return control->must_end;
}

static bool open_listener(struct listener *listener)
{
	struct control *control = listener->control;
	struct proton_error err = {0};
	char path[CONTROL_PATH_MAX] = "";

	leave_descriptors();
	bool is_open = open_socket(listener, path, &err) == PROTON_OK;
	MUTEX_HOLD(&control->lock);
	memcpy(control->path, path, sizeof(path));
	control->is_listening = is_open;
	control->has_failed = !is_open;
	control->why = err;
	pthread_cond_broadcast(&control->changed);
	return is_open;
}

/* The program ends: the command that is being carried out gets some time. */
static void end_job(struct listener *listener)
{
	for (int i = 0; listener->job_fd >= 0 && i < END_STEPS_MAX; i++) {
		finish_job(listener);
		if (listener->job_fd >= 0)
			poll(NULL, 0, JOB_POLL_MS);
	}
	if (listener->job_fd >= 0)
		send_failure(listener->job_fd, "the program ends");
}

void *listener_run(void *data)
{
	struct listener listener = {.control = data, .fd = -1, .directory = -1, .job_fd = -1};
	struct control *control = data;

	if (open_listener(&listener)) {
		while (!must_end(control) && serve(&listener))
			;
		while (listener.count)
			refuse_connection(&listener, 0);
		end_job(&listener);
		close_socket(&listener);
	}
	pthread_mutex_lock(&control->lock);
	control->is_listening = false;
	pthread_mutex_unlock(&control->lock);
	listener_end_thread(control);
	return NULL;
}

void listener_end_thread(struct control *control)
{
	pthread_mutex_lock(&control->lock);
	bool is_last = --control->threads == 0 && control->is_left;
	pthread_cond_broadcast(&control->changed);
	pthread_mutex_unlock(&control->lock);
	if (is_last)
		free(control);
}
