/* Internal interface of the files that start, keep and end sessions. */
#pragma once

#include "base/err.h"
#include "export/export.h"
#include "record/sets/session.h"
#include "record/store/store.h"

/* ------------------------------------------------------------------ output.c */

/* Output formats of finalize, in addition to the exporters: without .write. */
extern const struct export_format output_proton; /* the working file stays, complete */
extern const struct export_format output_none;

/*
 * The format `name`; NULL or "": the data's default. NULL and E_INVALID: unknown, or it needs a
 * trace.
 */
const struct export_format *output_format_find(const char *name, bool is_trace,
					       struct proton_error *err);

/* E_INVALID: the output of a session named `path` (NULL: standard output) cannot be in `format`. */
int output_format_check(const struct export_format *format, const char *path,
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

/* Writes a profile. `no_clobber`: fails if the file exists. */
int output_write(const struct export_format *format, const struct profile *profile,
		 const char *path, bool no_clobber, struct proton_error *err);

/* Writes a view as a complete profile file. `is_exclusive`: fails if the file exists. */
int output_write_packed(struct profile_view *view, const char *path, bool is_exclusive,
			struct proton_error *err);

/* The path of the output of a session with one, or a pattern if it will have several. */
void output_path(const struct session *session, const struct export_format *format, char *path,
		 size_t capacity);

/* Writes the output of a session that no longer records, then closes its store. */
int output_finish(struct session *session, const struct export_format *format,
		  struct proton_error *err);

/* ------------------------------------------------------------------ summary.c */

/*
 * Stores the line about recorded and lost data for proton_last_summary(). `hint` tells how to view
 * the output, NULL if nothing was written. Call it before the store is closed.
 */
void summary_make(const struct session *session, const char *hint);
/* A signal that ends the program has arrived, or has not ended it. Safe in a signal handler. */
void summary_note_signal(bool has_arrived);

/*
 * Returns the line, once. False if proton_last_summary() has returned it (`was_taken_out`; the
 * program may not have printed it yet), if there is none, or if its session is quiet. The program's
 * end and a signal can come together; only one of them prints. Without `is_early_wanted` also false
 * if the session had ended before a signal arrived.
 */
bool summary_take(bool is_early_wanted, char *text, size_t capacity, bool *was_taken_out);

/* ------------------------------------------------------------------ run_info.c */

/* Adds info rows: session options, machine, command line. Call it before the backend runs. */
void run_info_add_session(struct session *session);
/* Adds the backend's info while it runs and nothing is recorded; the last call counts. */
void run_info_add_backend(struct session *session);

/* ------------------------------------------------------------------ periodic_flush.c */

/*
 * Mode "periodic_flushing": each phase is written to its own file after the next one has begun, and
 * then cleared. A copy of the last one can be read until the next is written. A long run therefore
 * keeps only two phases.
 */

/*
 * Parses "periodic_flushing[:format=NAME]"; any other mode gives *format_out NULL. `backend` is
 * used in error messages. E_INVALID: another option, or a format that does not fit the data.
 */
int periodic_flush_read_mode(const char *backend, const char *mode, bool is_trace,
			     const struct export_format **format_out, struct proton_error *err);

/*
 * Session `id` has begun a phase: waits for the work launched so far, writes the earlier phases
 * that were not cleared to `<path>.part_<phase>.<suffix>` and clears them. If a file cannot be
 * written, a warning is printed, and the phase is kept and tried again.
 */
void periodic_flush(int id);

/* ------------------------------------------------------------------ sample_sources.c */

/*
 * Stores the text of each file that a line table names, because the profile may be read elsewhere:
 * regular files, up to a size. A file that cannot be read is left out. The session has ended.
 */
void sample_sources_store(struct store *store);
/*
 * Visits the directories of kernels, with NAME.cubin, NAME.ptx and others, in all of Triton's
 * caches on disk, until `visit` returns false, or for 2 s.
 */
void sample_sources_walk_caches(bool (*visit)(void *user, const char *directory), void *user);

/* ------------------------------------------------------------------ reclaim_names.c */

/*
 * Called after phases were cleared: if there are many new names since the last time, unneeded names
 * give up their places, see frames.h. The registry is locked, and cleared data is no longer
 * published.
 */
void reclaim_names(void);

/* ------------------------------------------------------------------ signals.c */

/* Waits while an arrived signal is handled; returns if none is, or it has not ended the process. */
void signals_wait_raised(void);
