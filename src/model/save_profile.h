/* Writing a profile in memory as a packed profile file. */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

/*
 * The tree, the data of its nodes and of the run, and its ranks. Events and PC samples are left
 * out. All is in one epoch.
 */
int profile_save(const struct profile *profile, struct out *out, struct proton_error *err);
