/*
 * Output formats: one file each, one table of them. An exporter turns a profile into bytes.
 */
#ifndef EXPORT_EXPORT_H
#define EXPORT_EXPORT_H

#include "base/buf.h"
#include "model/profile.h"

struct export_format {
	const char *name;   /* what the user asks for; compared without regard to case */
	const char *suffix; /* of the file, without the dot */
	/* Writes the profile; errors of `out` are sticky and reported by out_finish(). */
	int (*write)(const struct profile *profile, struct out *out, struct proton_error *err);
	bool needs_trace; /* of a profile with events only: profile->trace */
};

/* NULL past the last one. */
const struct export_format *export_format_at(size_t index);
/* NULL if there is none of that name. */
const struct export_format *export_format_find(const char *name);

/* Writes `path` whole or not at all. `no_clobber`: fails if there is such a file by then. */
int export_to_file(const struct export_format *format, const struct profile *profile,
		   const char *path, bool no_clobber, struct proton_error *err);

int export_hatchet(const struct profile *profile, struct out *out, struct proton_error *err);
int export_hatchet_compact(const struct profile *profile, struct out *out,
			   struct proton_error *err);
int export_chrome_trace(const struct profile *profile, struct out *out, struct proton_error *err);
int export_perfetto(const struct profile *profile, struct out *out, struct proton_error *err);
int export_msgpack(const struct profile *profile, struct out *out, struct proton_error *err);

#endif
