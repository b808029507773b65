/*
 * Regrouping of a profile: a flat profile with one node per kernel, scope, layer, file or device
 * below the root, or a bottom-up one, from each kernel to its callers. The result is an ordinary
 * profile: it rolls up, derives, prints and compares in the same way, and its kernels have the same
 * totals.
 */
#pragma once

#include "base/err.h"
#include "model/profile.h"

enum regroup_by {
	/* Nodes with kernels, by frame; with the metrics of these nodes only. */
	REGROUP_KERNEL,
	/*
	 * Each node counts for the frame it is below: a kernel for the scope (or source line) that
	 * launched it, a scope's own metrics for the scope. "(no scope)" is directly below the
	 * root.
	 */
	REGROUP_SCOPE,
	/*
	 * By innermost source frame: its file, or the file's name as a Python module (the path
	 * after site-packages, with dots). "(no source)" for nodes without one.
	 */
	REGROUP_FILE,
	REGROUP_MODULE,
	/*
	 * By the innermost name that is a scope or a module of PyTorch: the first `levels` parts of
	 * it ("layers.0.mlp"; 0: all), and " <backward>" if it is the backward pass. "(no layer)".
	 */
	REGROUP_LAYER,
	/* By the innermost operator of PyTorch, "aten::addmm". "(no operator)". */
	REGROUP_OPERATOR,
	/* By operator and the shapes of its inputs, where the profile has them (`--shapes`). */
	REGROUP_SHAPE,
	/* "CUDA 0". The metrics of a node count for the device where its kernels took longest. */
	REGROUP_DEVICE,
	/*
	 * Each kernel below the root, with its callers below it, innermost first, up to `levels` of
	 * them. Rolled-up values are a caller's share of the kernel.
	 */
	REGROUP_CALLERS,
};

/*
 * `keeps`: per node, whether its rows count; NULL: all. `places`, if it is not NULL, gets per node
 * the node of the result that its kernels were added to. Free *out with profile_free(). E_NOMEM;
 * E_RANGE: callers would be many times more nodes than the profile has.
 */
#define PLACE_NONE UINT32_MAX       /* it has no kernels, or they do not count */
#define PLACE_MANY (UINT32_MAX - 1) /* kernels of several devices */
int profile_regroup(const struct profile *profile, enum regroup_by by, size_t levels,
		    const bool *keeps, uint32_t *places, struct profile **out,
		    struct proton_error *err);
