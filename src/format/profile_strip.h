/*
 * A copy of a profile file without what identifies users and machines or is not theirs to give
 * away: source text, machine code, hosts, jobs, command lines, UUIDs, directories.
 */
#ifndef FORMAT_PROFILE_STRIP_H
#define FORMAT_PROFILE_STRIP_H

#include "base/buf.h"
#include "format/profile_view.h"

/*
 * Writes a packed file. Only strings that the rest refers to are in it, and only information that
 * is known to be harmless.
 */
int profile_strip(const struct profile_view *view, struct out *out, struct proton_error *err);

#endif
