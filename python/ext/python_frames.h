/*
 * Python frames of the calling thread; hides the differences between versions of CPython.
 *
 * "With the GIL" means an attached thread in a free-threaded build.
 */
#pragma once

#include "ext.h"

/*
 * Position of a frame in its code object: the offset of the instruction in bytes, -1 before the
 * first one. From 3.14 on, each thread of a free-threaded build executes its own copy of the
 * bytecode, which can be found only while the thread is attached. There, a position is the distance
 * of the instruction from the code object, which is constant per thread and instruction;
 * frame_offset() computes the offset.
 */
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030e0000
#define EXT_HAS_CODE_COPIES 1
typedef intptr_t frame_place;
#else
#define EXT_HAS_CODE_COPIES 0
typedef int32_t frame_place;
#endif

/* A visited frame; it keeps its code object alive while the walk is above it. */
struct frame_visit {
	PyCodeObject *code; /* borrowed */
	frame_place place;
};

/* A thread's frames, innermost first. Initialize with zeros; release with frame_walk_fini(). */
struct frame_walk {
	struct frame_visit *visits;
	uint32_t count;
	size_t capacity;
};

void frame_walk_fini(struct frame_walk *walk);

/* The instruction's offset, or -1. False before the call's first statement. With the GIL. */
bool frame_offset(const struct frame_visit *visit, int32_t *offset_out);

/* Public walk, with the GIL. Frame objects may run Python code, and launch. False: no memory. */
bool frames_walk_public(struct frame_walk *walk);

/*
 * Walk through the interpreter's own frames, without the GIL: only their thread changes them, which
 * is `thread` and the caller. Frames with a false frame_offset() may be among them. False if the
 * frames are unknown or memory ran out.
 */
bool frames_walk_own(struct frame_walk *walk, PyThreadState *thread);

/*
 * Coroutines on the stack: the outermost, and the first of the innermost ones that directly await
 * each other. Both are the same unless a task runs inside another one (an eager task) or C code
 * awaits. NULL: none.
 */
struct frame_coroutines {
	const void *outermost;
	const void *nearest;
};

/* Also without the GIL. False: the frames of this Python are unknown. */
bool frames_find_coroutines(PyThreadState *thread, struct frame_coroutines *out);

/*
 * For each frame of `code`, innermost first: the first argument of the frame that it called, or
 * the first item of a tuple of arguments. Borrowed; NULL: unknown. Returns how many there are, up
 * to `capacity`; 0 if the frames are unknown. Also without the GIL.
 */
uint32_t frames_first_arguments(PyThreadState *thread, const PyCodeObject *code,
				PyObject **arguments, uint32_t capacity);

/* Whether the interpreter's frames are known: by version, and both walks agree on the caller. */
void frames_init(void);
/* Whether to use them from now on. False: they are unknown, or not wanted. */
bool frames_use_own(bool is_wanted);

/* Scopes between the Python frames of a walk: context "python+scopes". */

/* The place of a scope that is entered by the frame at `index` of the walk; never 0. */
uint64_t scope_place(const struct frame_walk *walk, uint32_t index);

/*
 * Inserts the open scopes of the calling thread into its walk, each below the frame that entered
 * it, as visits for which scope_visit_frame() is true. The walk had `total` frames before those of
 * other work were cut off at the root; scopes that they entered are left out. False if memory ran
 * out.
 */
bool scope_places_insert(struct frame_walk *walk, uint32_t total);

/* Not a Python frame but a scope: its frame, for libproton; 0: it is a Python frame. */
extern PyCodeObject *const scope_visit_code;
static inline uint32_t scope_visit_frame(const struct frame_visit *visit)
{
	return visit->code == scope_visit_code ? (uint32_t)visit->place : 0;
}
