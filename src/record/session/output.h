/* Where a session's files are, and writing them when it ends. */
#ifndef RECORD_SESSION_OUTPUT_H
#define RECORD_SESSION_OUTPUT_H

#include "export/export.h"
#include "record/session/session.h"

/* Formats of finalize beyond the exporters. */
enum output_kind {
	OUTPUT_EXPORT,
	OUTPUT_PROTON, /* the working file stays, finished */
	OUTPUT_NONE,
};

struct output_format {
	enum output_kind kind;
	const struct export_format *export; /* OUTPUT_EXPORT */
};

/*
 * For a session with data="trace", or "tree". NULL or "" is the default of these. E_INVALID:
 * "Unknown output format: X", and one that needs a trace where there is none.
 */
int output_format_find(const char *name, bool is_trace, struct output_format *out,
		       struct proton_error *err);

/* E_INVALID: the output of a session named `path` (NULL: standard output) cannot be `format`. */
int output_format_check(const struct output_format *format, const char *path,
			struct proton_error *err);

/* Absolute path of `name` without suffix, malloc'd; NULL for standard output. */
int output_path(const char *name, char **out, struct proton_error *err);

/*
 * Refuses a name with files that are not to be replaced. Creates the session's store in
 * `<path>.proton`, or where that cannot be mapped in /dev/shm or in private memory, which is noted.
 * May change session->path when another process writes there.
 */
int output_open(struct session *session, struct proton_error *err);

/* Writes the output of a session that records no more, then closes its store. */
int output_finish(struct session *session, const struct output_format *format,
		  struct proton_error *err);

#endif
