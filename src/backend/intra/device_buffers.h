/*
 * Device memory that instrumented kernels write into: buffers that are reused, of a bounded sum,
 * each cleared before it is handed out (buffer_clear.h). Taking one costs a lock and, only while
 * the pool still grows, an allocation now and then: several buffers are made at once.
 */
#ifndef BACKEND_INTRA_DEVICE_BUFFERS_H
#define BACKEND_INTRA_DEVICE_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/proton.h>

#include "record/thread/thread_trace.h"

struct kernel;

/* All buffers of the process together. */
#define DEVICE_BUFFERS_BYTES_MAX ((size_t)512 << 20)

struct slab;

/* Of a layout (intra/layout.h), what says where headers are and where records end. */
struct shape {
	uint32_t unit_count;
	uint32_t ring_bytes;
	uint32_t slack_bytes;
	uint32_t cta_bytes; /* 0: no layout at all */
};

struct buffer {
	struct buffer *next; /* in whatever list it is */
	struct slab *slab;   /* the allocation that it is a part of */
	uint64_t address;
	size_t bytes;
	void *context; /* of the driver */
	void *event;   /* recorded behind the launch */
	bool is_of_graph;
	/* What it was cleared for: launches of this shape find zeros where they have to be. */
	struct shape shape; /* none: for any, all of it is zero */
	size_t asked_bytes; /* when it was taken last */
	uint64_t number;    /* in the queue */
	uint64_t turn;      /* of its kernel, to go into traces */
	/* The launch that fills it. */
	uint64_t stream;
	struct kernel *kernel; /* NULL: nobody wants to know what is in it */
	struct proton_context where;
	size_t used_bytes; /* that the launch may have written */
	uint64_t before_ns;
	struct trace_event launch; /* its event in the traces that saw it */
	bool is_kept;              /* its events go into traces */
};

/*
 * At least `bytes` of the current context, cleared by now, if can be one that was last taken for as
 * many: then it mostly was cleared for the same kernel. NULL: none left.
 */
struct buffer *device_buffers_take(size_t bytes);
/* One that will never come back, for a launch that is captured; all zero by now. */
struct buffer *device_buffers_take_for_graph(size_t bytes);
/* Cleared by the caller. */
void device_buffers_give(struct buffer *buffer);
/* It is not usable any more: its context is gone. */
void device_buffers_drop(struct buffer *buffer);
/* Gives what is unused back to the devices. */
void device_buffers_empty(void);
/* In the child of a fork, where nothing of it exists. */
void device_buffers_forget(void);

#endif
