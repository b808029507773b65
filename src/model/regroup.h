/*
 * A profile seen from another side: flat, with one node per kernel, scope, module, file or device
 * below the root; or upside down, from each kernel to those who called it. The result is a profile
 * like any other: it rolls up, derives, prints and compares in the same way, and its kernels add up
 * to the same totals.
 */
#ifndef MODEL_REGROUP_H
#define MODEL_REGROUP_H

#include "base/err.h"
#include "model/profile.h"

enum regroup_by {
	/* Nodes that ran kernels, by their frame; with the metrics of these nodes and no others. */
	REGROUP_KERNEL,
	/*
	 * Each node goes to the frame it is below: a kernel to the scope (or the source line) that
	 * launched it, a scope's own metrics to the scope. "(no scope)" is directly below the root.
	 */
	REGROUP_SCOPE,
	/* By the innermost source frame: its file, or the file's name as a Python module (what
	 * follows site-packages, with dots). "(no source)" has none. */
	REGROUP_FILE,
	REGROUP_MODULE,
	/* "CUDA 0". The metrics of a node go to the device where its kernels took longest. */
	REGROUP_DEVICE,
};

/*
 * `keeps`: per node, whether its rows count; NULL: all. *out is the caller's, profile_free().
 * E_NOMEM.
 */
int profile_regroup(const struct profile *profile, enum regroup_by by, const bool *keeps,
		    struct profile **out, struct proton_error *err);

/*
 * Below the root each kernel, below it its callers, innermost first, up to `levels` of them. What
 * is rolled up is a caller's share of the kernel. E_NOMEM; E_RANGE: this would be many times more
 * nodes than the profile has.
 */
int profile_invert(const struct profile *profile, size_t levels, const bool *keeps,
		   struct profile **out, struct proton_error *err);

#endif
