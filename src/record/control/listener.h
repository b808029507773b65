/*
 * Listener: a thread with the control socket of this process. It takes requests from processes of
 * the same user, gives them to the thread that carries out commands, and sends the replies.
 *
 * It has its own table of descriptors: a program that closes all descriptors does not end it, a
 * forked child does not inherit the socket, and connections take no descriptors of the program.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"
#include "format/control_request.h"

#define CONTROL_PATH_MAX 320u

enum control_job_state {
	CONTROL_JOB_NONE,
	CONTROL_JOB_ASKED,
	CONTROL_JOB_DONE,
};

/* Shared by the two threads. */
struct control {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool must_end;
	bool is_left;      /* the last thread frees this */
	bool is_listening; /* the listener has its socket */
	bool has_failed;   /* it has none: `why` */
	struct proton_error why;
	unsigned threads;  /* that have not ended */
	uint64_t start_ns; /* when to start a session, monotonic; 0: no such time */
	uint64_t length_ns;
	uint64_t stop_ns; /* when to stop it */
	enum control_job_state state;
	enum control_command command; /* in the request */
	uint64_t asked_ns;
	char request[CONTROL_REQUEST_MAX];
	size_t request_length;
	char reply[CONTROL_REPLY_MAX]; /* CONTROL_OK or CONTROL_FAILED, and text */
	size_t reply_length;
	uint64_t refused;            /* connections */
	char label[64];              /* part of the socket's name */
	char path[CONTROL_PATH_MAX]; /* the socket, set by the listener */
};

/* Each thread calls it at its end. */
void listener_end_thread(struct control *control);

/* The function of the thread; `data` is a struct control. */
void *listener_run(void *data);
/* Makes the listener look at must_end. */
void listener_wake(const struct control *control);
