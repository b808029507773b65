/* A launch of an instrumented kernel, from the launching thread through the queue to the traces. */
#ifndef BACKEND_INTRA_LAUNCH_H
#define BACKEND_INTRA_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/proton.h>

#include "record/store/trace_event.h"

struct buffer;
struct kernel;

/* Part of its buffer, because launching threads must not allocate. */
struct launch {
	struct launch *next;   /* in the queue */
	struct buffer *buffer; /* for its records; constant */
	uint64_t number;       /* in the queue */
	uint64_t turn;         /* among the traced launches of its kernel: ordered_commit.h */
	uint64_t stream;
	struct kernel *kernel; /* NULL: its records are not wanted */
	struct proton_context where;
	size_t used_bytes; /* of the buffer, that the launch may write */
	uint64_t before_ns;
	struct trace_event event; /* the API call, in the traces that have it */
	bool is_traced;
};

#endif
