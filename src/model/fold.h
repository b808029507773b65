/*
 * Folding: hidden nodes are removed from a tree. The nodes below them move up to the nearest node
 * that is left, and are added to those of the same frame there, so no total changes. Everything
 * else of the profile stays.
 */
#pragma once

#include "model/profile.h"

/*
 * Clears `is_hidden`, by node, for the root, for kernels and for all nodes below kernels: they are
 * never hidden. Returns the number of hidden nodes.
 */
size_t fold_allowed(const struct profile *profile, bool *is_hidden);

/*
 * Removes the hidden nodes that fold_allowed() has left. Their additive values move up; the others
 * do too unless the node above has its own, which already covers them. Statistics over the ranks of
 * a merged job are lost for a node that two nodes became: they are not those of a sum. If out of
 * memory, profile->out_of_memory is set.
 */
void profile_fold(struct profile *profile, const bool *is_hidden);

/* To whom a source frame belongs, by the path of its file: views hide frames by it. */
enum frame_owner {
	OWNER_USER,    /* and frames that are not lines: scopes, kernels, states */
	OWNER_TRITON,  /* with this package */
	OWNER_TORCH,   /* with the code that torch.compile generated */
	OWNER_PYTHON,  /* the standard library, and what the interpreter has built in */
	OWNER_PACKAGE, /* another installed package */
};

enum frame_owner frame_owner(const struct profile *profile, uint32_t frame);
