/* Output files of a session: their names, and writing them when it ends. */
#ifndef RECORD_SESSION_OUTPUT_H
#define RECORD_SESSION_OUTPUT_H

#include "export/export.h"
#include "record/sets/session.h"

/* Output formats of finalize, in addition to the exporters. */
enum output_kind {
	OUTPUT_EXPORT,
	OUTPUT_PROTON, /* the working file stays, complete */
	OUTPUT_NONE,
};

struct output_format {
	enum output_kind kind;
	const struct export_format *export; /* OUTPUT_EXPORT */
};

/*
 * Finds a format for data="trace" or "tree". NULL or "" is its default. E_INVALID: "Unknown output
 * format: X", or a format that needs a trace.
 */
int output_format_find(const char *name, bool is_trace, struct output_format *out,
		       struct proton_error *err);

/* E_INVALID: the output of a session named `path` (NULL: standard output) cannot be in `format`. */
int output_format_check(const struct output_format *format, const char *path,
			struct proton_error *err);

/*
 * Rejects a name with files that must not be replaced. Creates the session's store in
 * `<path>.proton`. If that cannot be mapped, it is in /dev/shm or in private memory, with a
 * warning. May change session->path if another process is writing there.
 */
int output_open(struct session *session, struct proton_error *err);

/* A final copy of a phase, or of PHASE_ALL; the caller frees it. The session is locked. */
int output_load_phase(const struct session *session, uint32_t phase, struct profile **out,
		      struct proton_error *err);
/* The path of a phase that is a file, malloc'd; NULL: out of memory. */
char *output_part_path(const struct session *session, uint32_t phase,
		       const struct export_format *format);

/* Writes a view as a complete profile file. `is_exclusive`: fails if the file exists. */
int output_write_packed(struct profile_view *view, const char *path, bool is_exclusive,
			struct proton_error *err);

/* The path of the output of a session with one, or a pattern if it will have several. */
void output_path(const struct session *session, const struct output_format *format, char *path,
		 size_t capacity);

/* Writes the output of a session that no longer records, then closes its store. */
int output_finish(struct session *session, const struct output_format *format,
		  struct proton_error *err);

#endif
