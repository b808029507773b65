/*
 * Finding the Python frames of the calling thread; what differs between versions of CPython.
 *
 * "With the GIL" means an attached thread in a free-threaded build.
 */
#ifndef EXT_FRAMES_H
#define EXT_FRAMES_H

#include "ext.h"

/*
 * Where in its code object a frame is: the offset of the instruction in bytes, -1 before the first
 * one. From 3.14 on, each thread of a free-threaded build executes its own copy of the bytecode,
 * which can be found only while the thread is attached. There, a place is the distance of the
 * instruction from the code object: the same for the same thread and instruction, and
 * frame_offset() finds the offset.
 */
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030e0000
#define EXT_HAS_CODE_COPIES 1
typedef intptr_t frame_place;
#else
#define EXT_HAS_CODE_COPIES 0
typedef int32_t frame_place;
#endif

/* A frame as it is met; it keeps its code object alive as long as we are on top of it. */
struct frame_visit {
	PyCodeObject *code; /* borrowed */
	frame_place place;
};

/* The frames of a thread, leaf first. To be zeroed at first and freed with frame_walk_fini(). */
struct frame_walk {
	struct frame_visit *visits;
	uint32_t cnt;
	uint32_t capacity;
};

void frame_walk_fini(struct frame_walk *walk);

/*
 * The offset of the instruction in bytes, or -1. False for a call that has not reached its first
 * statement, which counts as not made. With the GIL.
 */
bool frame_offset(const struct frame_visit *visit, int32_t *offset_out);

/*
 * Through the public interface: with the GIL. Makes frame objects, and that may collect garbage,
 * which runs Python code, which may launch kernels. False when out of memory.
 */
bool frames_walk_public(struct frame_walk *walk);

/*
 * The same from the interpreter's own frames, without the GIL: they are changed by their thread
 * only, which is `thread` and calls this. Frames for which frame_offset() is false may be among
 * them. Only after frames_are_known() was true. False when out of memory.
 */
bool frames_walk_own(struct frame_walk *walk, PyThreadState *thread);

/*
 * Coroutines on the stack: the outermost, and the first of the innermost ones that directly await
 * each other. Both are one coroutine unless a task runs inside another one (an eager task) or code
 * in C awaits. NULL: none.
 */
struct frame_coroutines {
	const void *outermost;
	const void *nearest;
};

/* Likewise: needs no GIL. False: the frames of this Python are not known. */
bool frames_find_coroutines(PyThreadState *thread, struct frame_coroutines *out);

/*
 * True when frames_walk_own() can be used: the version is one whose frames we know, and both ways
 * find the same on the stack of the caller, who holds the GIL and is called from Python.
 */
bool frames_are_known(void);

#endif
