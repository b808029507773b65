/*
 * Output names of a session: the output path without suffix, and checks of existing files there.
 * They run when a session starts, so a run does not end without a place for its profile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* "" and "-". */
bool target_is_standard_output(const char *name);

/*
 * `name` as an absolute path without the suffix of an output ("x.hatchet" is "x"), malloc'd.
 * E_INVALID, E_IO: a directory, a device, too long, or no writable directory.
 */
int target_stem(const char *name, char **stem_out, struct proton_error *err);

/*
 * Checks that `path` may be written: it does not exist, or is an earlier profile or an empty file.
 * `no_clobber`: only if it does not exist. *has_profile_out (may be NULL): an earlier profile
 * exists.
 */
int target_check(const char *path, bool no_clobber, bool *has_profile_out,
		 struct proton_error *err);

/*
 * target_check() of all files of a session: `<stem>.<suffix>` (NULL: none), its parts and the
 * working file. The working file of a killed run is allowed even with `no_clobber`: it is renamed.
 */
int target_check_all(const char *stem, const char *suffix, bool no_clobber,
		     struct proton_error *err);

/* True if PROTON_NO_CLOBBER is set and not "0". */
bool target_env_no_clobber(void);

/*
 * True if a file that begins with these bytes is a profile: a profile file, hatchet (JSON or
 * MessagePack), a Chrome trace or a Perfetto trace. A few KiB are enough; the rest of the file is
 * not checked.
 */
bool target_recognize(const char *bytes, size_t length);
