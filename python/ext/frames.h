/* Finding the Python frames of the calling thread; what differs between versions of CPython. */
#ifndef EXT_FRAMES_H
#define EXT_FRAMES_H

#include "ext.h"

/* A frame as it is met; it keeps its code object alive as long as we are on top of it. */
struct frame_visit {
	PyCodeObject *code; /* borrowed */
	int32_t offset;     /* of the instruction in bytes; -1 before the first one */
};

/* The frames of a thread, leaf first. To be zeroed at first and freed with frame_walk_fini(). */
struct frame_walk {
	struct frame_visit *visits;
	uint32_t cnt;
	uint32_t capacity;
};

void frame_walk_fini(struct frame_walk *walk);

/*
 * Through the public interface: with the GIL. Makes frame objects, and that may collect garbage,
 * which runs Python code, which may launch kernels. False when out of memory.
 */
bool frames_walk_public(struct frame_walk *walk);

/*
 * The same from the interpreter's own frames, without the GIL: they are changed by their thread
 * only, which is `thread` and calls this. For versions whose frames are known, see
 * frames_are_known(). False when out of memory.
 */
bool frames_walk_own(struct frame_walk *walk, PyThreadState *thread);

/*
 * The outermost coroutine or generator on the stack, likewise; NULL: none. False: the frames of
 * this version are not known.
 */
bool frames_outermost_coroutine(PyThreadState *thread, const void **frame_out);

/*
 * True when frames_walk_own() can be used: the version is one whose frames we know, and both ways
 * find the same on the stack of the caller, who holds the GIL and is called from Python.
 */
bool frames_are_known(void);

#endif
