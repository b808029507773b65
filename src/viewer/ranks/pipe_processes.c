/* Processes of proton-merge that are connected by their parents. */
#include "viewer/ranks/pipe_processes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/message.h"
#include "viewer/print/xalloc.h"

#define EXIT_BAD 2

static struct processes own;
static int output = -1; /* requests */

static void give_up(const char *what)
{
	message("cannot merge the ranks: %s", what);
	exit(EXIT_BAD);
}

bool pipe_processes_begin(struct processes *self_out)
{
	const char *text = environment_get("PROTON_MERGE_PIPE");
	struct processes self = {0};
	char *end;

	if (!text)
		return false;
	self.number = (int)strtol(text, &end, 10);
	self.count = *end == '/' ? (int)strtol(end + 1, &end, 10) : 0;
	if (*end || self.number < 0 || self.number >= self.count)
		give_up("PROTON_MERGE_PIPE is not NUMBER/COUNT");
	/* Nothing else may write between the requests. */
	output = dup(STDOUT_FILENO);
	if (output < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		give_up(strerror(errno));
	*self_out = own = self;
	return true;
}

static void write_all(const void *bytes, size_t length)
{
	const char *at = bytes;

	while (length) {
		ssize_t written = write(output, at, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			give_up(strerror(errno));
		at += written;
		length -= (size_t)written;
	}
}

static void request(enum pipe_operation operation, int peer, size_t length)
{
	const struct pipe_request head = {operation, (uint32_t)peer, length};

	write_all(&head, sizeof(head));
}

void pipe_processes_send(int to, const void *bytes, size_t length)
{
	if (!length)
		return;
	request(PIPE_SEND, to, length);
	write_all(bytes, length);
}

void pipe_processes_receive(int from, void *bytes, size_t length)
{
	char *at = bytes;

	if (!length)
		return;
	request(PIPE_RECEIVE, from, length);
	while (length) {
		ssize_t taken = read(STDIN_FILENO, at, length);

		if (taken < 0 && errno == EINTR)
			continue;
		if (taken <= 0)
			give_up(taken ? strerror(errno) : "a process has ended");
		at += taken;
		length -= (size_t)taken;
	}
}

/* From process 0 in a binomial tree: process n receives from n without its lowest bit. */
void pipe_processes_share(char **bytes, size_t *length)
{
	int low = own.number & -own.number;
	uint64_t total = *length;

	if (own.number) {
		pipe_processes_receive(own.number - low, &total, sizeof(total));
		*bytes = xcalloc(total + 1, 1);
		pipe_processes_receive(own.number - low, *bytes, total);
		*length = total;
	} else {
		for (low = 1; low < own.count;)
			low *= 2;
	}
	for (int step = low / 2; step; step /= 2) {
		if (own.number + step >= own.count)
			continue;
		pipe_processes_send(own.number + step, &total, sizeof(total));
		pipe_processes_send(own.number + step, *bytes, total);
	}
}
