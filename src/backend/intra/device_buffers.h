/*
 * Buffer pool: device memory for the records of launches. Buffers are reused, limited in total
 * size, and cleared before reuse (launch_reader.h). Taking one costs a lock. While the pool grows,
 * a few launches also cost an allocation, for several buffers at once.
 */
#pragma once

#include <libproton/proton.h>

#include "record/store/execution.h"

/* Maximum bytes of all buffers of the process. */
#define DEVICE_BUFFERS_BYTES_MAX ((size_t)512 << 20)

struct slab;
struct kernel;

/*
 * A launch of an instrumented kernel, from the launching thread through the queue to the traces. It
 * is part of its buffer, because launching threads must not allocate.
 */
struct launch {
	struct launch *next;   /* in the queue */
	struct buffer *buffer; /* for its records; constant */
	uint64_t number;       /* in the queue */
	uint64_t turn;         /* among the traced launches of its kernel: launch_queue.c */
	uint64_t stream;
	struct kernel *kernel; /* NULL: its records are not wanted */
	struct proton_context where;
	size_t used_bytes; /* of the buffer, that the launch may write */
	uint64_t before_ns;
	uint32_t weight;          /* it stands for so many launches: closed_loop.h */
	struct trace_event event; /* the API call, in the traces that have it */
	bool is_traced;
};

/* The part of a layout (intra/layout.h) that determines where headers and slack areas are. */
struct shape {
	uint32_t unit_count;
	uint32_t ring_bytes;
	uint32_t slack_bytes;
	uint32_t cta_bytes; /* 0: no layout */
};

struct buffer {
	struct buffer *next; /* in the list that it is in */
	struct slab *slab;   /* its allocation */
	uint64_t address;
	size_t bytes;
	void *context; /* driver context */
	void *event;   /* recorded after the launch */
	bool is_of_graph;
	/* Launches of this shape find zeros where they need them. */
	struct shape shape;   /* none: all of the buffer is zero */
	size_t asked_bytes;   /* requested when it was taken last */
	struct launch launch; /* that fills it, or did last */
};

/*
 * Takes a cleared buffer of at least `asked` bytes in the current context. Prefers one that was
 * last taken for the same size: probably for the same kernel. One for a captured launch is new, and
 * never returned. NULL if none is left.
 */
struct buffer *device_buffers_take(size_t asked, bool is_of_graph);
/* Returns a buffer that the caller has cleared. */
void device_buffers_give(struct buffer *buffer);
/* Discards a buffer that cannot be used any more, because its context is gone. */
void device_buffers_drop(struct buffer *buffer);
/* Frees unused device memory. */
void device_buffers_empty(void);
/* After fork(), in the child, where no buffer exists. */
void device_buffers_forget(void);
