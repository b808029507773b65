/*
 * Where the output of a session goes: its name without suffix, and the files that exist there.
 * Checked when a session starts, so that a run does not end without a place for its profile.
 */
#ifndef FORMAT_TARGET_H
#define FORMAT_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* "" and "-". */
bool target_is_standard_output(const char *name);

/*
 * `name` as an absolute path without the suffix of an output ("x.hatchet" is "x"), malloc'd.
 * E_INVALID, E_IO: a directory, a device, too long, or no directory that takes files.
 */
int target_stem(const char *name, char **stem_out, struct proton_error *err);

/*
 * Whether `path` may be written: there is no such file, or an earlier profile, or an empty file.
 * `no_clobber`: only the first. *has_profile_out: an earlier profile exists; may be NULL.
 */
int target_check(const char *path, bool no_clobber, bool *has_profile_out,
		 struct proton_error *err);

/*
 * target_check() of all that a session writes: `<stem>.<suffix>` (NULL: nothing), its parts and the
 * working file. With `no_clobber` too the working file of a killed run may exist: it is moved.
 */
int target_check_all(const char *stem, const char *suffix, bool no_clobber,
		     struct proton_error *err);

/* PROTON_NO_CLOBBER is set and not "0". */
bool target_env_no_clobber(void);

#endif
