/*
 * To whom a source frame belongs: to a library, by the path of its file, or to the user. Views hide
 * frames by it (viewer/query/hiding.h).
 */
#ifndef MODEL_FRAME_OWNER_H
#define MODEL_FRAME_OWNER_H

#include "model/profile.h"

enum frame_owner {
	OWNER_USER,    /* and frames that are not lines: scopes, kernels, states */
	OWNER_TRITON,  /* with this package */
	OWNER_TORCH,   /* with the code that torch.compile generated */
	OWNER_PYTHON,  /* the standard library, and what the interpreter has built in */
	OWNER_PACKAGE, /* another installed package */
};

enum frame_owner frame_owner(const struct profile *profile, uint32_t frame);

#endif
