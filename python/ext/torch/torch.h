/*
 * PyTorch, for the rest of the extension: launches of a backward pass below the forward operators
 * that they belong to, and operators as frames.
 *
 * READ THIS FIRST. The files of this folder know private layouts of another project: the words of
 * autograd's nodes and the order of their reference count, thread-local variables of its libraries,
 * a class that is passed by value. No other place in the sources does. They are found or verified
 * when the program has imported PyTorch, and nothing is followed if anything differs
 * (docs/design/backward.md). A new version of PyTorch that the tests do not accept is a matter of
 * this folder alone. The rest of the extension includes this header and no other one from here.
 *
 * Functions without a comment about the GIL need none.
 */
#pragma once

#include "ext.h"
#include "python_frames.h"

/* Prefetches the numbers of the node that the thread evaluates: another processor wrote them. */
void autograd_prefetch(void);
/*
 * For a launch: the context of the forward operator of the backward node that the thread evaluates,
 * below the frame <backward>; PROTON_CONTEXT_ROOT: none, or unknown, which is counted. Also tells
 * whether the thread has made nodes since the last call of autograd_keep_launch().
 */
uint32_t autograd_find_base(bool *has_made_out);
/* The innermost frame that calls autograd's engine, and ends a node's; walk->count: none. */
uint32_t autograd_find_engine(const struct frame_walk *walk);
/*
 * Keeps the contexts of the operators that have made nodes since the thread's last launch:
 * `context_above` returns the one above the frame of `path` with an index, or of the whole path for
 * index -1.
 */
void autograd_keep_launch(const struct frame_walk *walk, PyThreadState *thread,
			  uint32_t (*context_above)(const void *path, int64_t index),
			  const void *path);

/* `context` below the operators that run on the calling thread, outermost first. */
uint32_t torch_ops_below(uint32_t context);

/* `below`: the context of compiled modules that the thread runs, once follow_modules(True) was. */
void torch_modules_set(uint32_t (*below)(uint32_t context));

extern PyMethodDef ext_autograd_methods[], ext_torch_methods[];
/* The module is destroyed: stops calls from libproton and PyTorch. */
void ext_torch_fini(void);
