/*
 * Requests of `proton ctl` to a process that listens: one message of strings that end with NUL, the
 * protocol, the command, and options as "key=value". Replies begin with CONTROL_OK or
 * CONTROL_FAILED, and end with lines of text.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CONTROL_PROTOCOL "proton-control 1"
#define CONTROL_REQUEST_MAX 16384u
#define CONTROL_REPLY_MAX 16384u
#define CONTROL_OK '+'
#define CONTROL_FAILED '-'

enum control_command {
	CONTROL_START,
	CONTROL_STOP,
	CONTROL_SNAPSHOT,
	CONTROL_STATUS,
	CONTROL_LEAVE, /* listen no more */
	CONTROL_COMMAND_COUNT,
};

enum control_option {
	CONTROL_NAME, /* an absolute path */
	CONTROL_BACKEND,
	CONTROL_CONTEXT,
	CONTROL_MODE,
	CONTROL_DATA,
	CONTROL_HOOK,
	CONTROL_FORMAT,
	CONTROL_MEMORY,  /* "1" */
	CONTROL_OWN_PID, /* "1": other processes get the same name: add the process id to it */
	CONTROL_OPTION_COUNT,
};

struct control_request {
	enum control_command command;
	const char *options[CONTROL_OPTION_COUNT]; /* borrowed; NULL: not given */
};

/* NULL past the last one. */
const char *control_command_name(enum control_command command);
/* False if there is no such command. */
bool control_command_find(const char *name, enum control_command *out);

/* Reads a message from anyone. E_INVALID, E_VERSION, with a message for the sender. */
int control_request_read(const char *bytes, size_t length, struct control_request *out,
			 struct proton_error *err);
/* The length of the message; 0: it is longer than `capacity`. */
size_t control_request_write(const struct control_request *request, char *bytes, size_t capacity);
