/* The socket of a process that listens, in the user's runtime directory: PID.LABEL. */
#ifndef RECORD_CONTROL_CONTROL_SOCKET_H
#define RECORD_CONTROL_CONTROL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct control_socket {
	int fd;        /* listening, does not block */
	int directory; /* -1: closed */
	char name[96]; /* in the directory */
};

/*
 * Gives the calling thread its own table of descriptors, which is empty but for /dev/null as the
 * standard streams. Where the kernel does not allow it, the thread keeps the program's table.
 */
void control_socket_leave_descriptors(void);

/* Opens the socket and stores its path in `path`. */
int control_socket_open(struct control_socket *socket, const char *label, char *path,
			size_t capacity, struct proton_error *err);
/* Removes the name. */
void control_socket_close(struct control_socket *socket);
/* Connects to the socket at `path` and leaves: its thread wakes up. */
void control_socket_touch(const char *path);
/* True for a connection from a process of the same user. */
bool control_socket_is_own_user(int fd);

#endif
