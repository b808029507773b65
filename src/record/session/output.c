/* Output files of a session: working file, final output, summary. */
#include "record/session/session_parts.h"

#include <limits.h>
#include <stdio.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/message.h"
#include "base/printable.h"
#include "base/replace.h"
#include "format/rank.h"
#include "format/target.h"
#include "model/load.h"

/* ------------------------------------------------------------------ earlier outputs */

/* A larger file is never the profile of a run that recorded nothing. */
#define SMALL_PROFILE_BYTES 65536

/* The latest files of this process; 0: none. No lock: a fork may come at any time. */
static _Atomic uint64_t written[64];
static _Atomic uint32_t written_count;

static uint64_t key_of(const struct stat *st)
{
	return (uint64_t)st->st_ino + (uint64_t)st->st_dev * 0x9e3779b97f4a7c15ULL;
}

static void note_written(const char *path)
{
	struct stat st;

	/* relaxed: no other data depends on the number */
	if (stat(path, &st) == 0)
		atomic_store_explicit(
			&written[atomic_fetch_add(&written_count, 1) % ARRAY_LENGTH(written)],
			key_of(&st), memory_order_relaxed);
}

static bool was_written_here(const struct stat *st)
{
	for (size_t i = 0; i < ARRAY_LENGTH(written); i++)
		if (atomic_load_explicit(&written[i], memory_order_relaxed) == key_of(st))
			return true;
	return false;
}

/* True if profile `path` is of another run that recorded something, as far as is known. */
static bool is_worth_keeping(const char *path)
{
	struct profile *profile;
	struct stat st;

	if (stat(path, &st) < 0 || was_written_here(&st))
		return false;
	if (st.st_size > SMALL_PROFILE_BYTES || profile_load_file(path, &profile, NULL))
		return true;
	bool is_empty = profile->node_count <= 1 && !profile->nodes[0].first_value;
	profile_free(profile);
	return !is_empty;
}

/* ------------------------------------------------------------------ formats and names */

const struct export_format output_proton = {.name = "proton", .suffix = "proton"};
const struct export_format output_none = {.name = "none", .suffix = "proton"};

const struct export_format *output_format_find(const char *name, bool is_trace,
					       struct proton_error *err)
{
	if (!name || !*name)
		name = is_trace ? "chrome_trace" : "hatchet";
	if (strcasecmp(name, output_proton.name) == 0)
		return &output_proton;
	if (strcasecmp(name, output_none.name) == 0)
		return &output_none;
	const struct export_format *format = export_format_find(name);
	if (!format)
		err_set(err, PROTON_E_INVALID,
			"Unknown output format: %s; expected " EXPORT_NAMES ", proton or none",
			name);
	else if (format->needs_trace && !is_trace)
		err_set(err, PROTON_E_INVALID,
			"output format %s needs a session with data=\"trace\"", format->name);
	return format && (is_trace || !format->needs_trace) ? format : NULL;
}

int output_format_check(const struct export_format *format, const char *path,
			struct proton_error *err)
{
	if (path || format != &output_proton)
		return PROTON_OK;
	return err_set(err, PROTON_E_INVALID,
		       "output format \"proton\" cannot be written to standard output");
}

static bool may_not_replace(const struct session *session)
{
	return session->flags & PROTON_SESSION_NO_CLOBBER;
}

/* Checks existing files with the session's names, unless finalize names another format. */
static int check_target(const struct session *session, struct proton_error *err)
{
	const struct export_format *format =
		output_format_find(session->format, session->trace != 0, err);

	if (!format)
		return PROTON_E_INVALID;
	return target_check_all(session->path, format->write ? format->suffix : NULL,
				may_not_replace(session), err);
}

static int create_store(struct session *session, const char *path, struct proton_error *err)
{
	int status = store_init(&session->store, path, false, err);

	if (status == PROTON_OK && session->store.file.place.leftover &&
	    !(session->flags & PROTON_SESSION_QUIET))
		message("the incomplete profile of an earlier run was renamed to %s",
			session->store.file.place.leftover);
	return status;
}

/* With the rank in it, which another machine does not use; NULL: not a rank. */
static char *ranked_name(const char *path)
{
	struct rank_identity identity;
	char *name;

	rank_read(&identity);
	if (!rank_is_of_many(&identity) ||
	    asprintf(&name, "%s.rank%06u.proton", path, identity.rank) < 0)
		return NULL;
	return name;
}

/* Another process records under this name: use a name of this process. */
static int open_under_own_name(struct session *session, const char *working,
			       struct proton_error *err)
{
	AUTO_FREE char *ranked = session->is_ranked ? NULL : ranked_name(session->path);
	int status = PROTON_E_BUSY;

	if (ranked)
		status = store_init(&session->store, ranked, false, err);
	if (status == PROTON_E_BUSY)
		status = store_init(&session->store, ranked ? ranked : working, true, err);
	if (status != PROTON_OK)
		return status;
	const char *own = session->store.file.place.path;
	char *path = strndup(own, strlen(own) - strlen(".proton"));
	if (!path) {
		store_fini(&session->store, true);
		return err_nomem(err);
	}
	if (!(session->flags & PROTON_SESSION_QUIET))
		message("another process is recording to %s; using %s instead", session->path,
			path);
	free(session->path);
	session->path = path;
	return PROTON_OK;
}

/* The output's file system does not support shared mappings (some network file systems). */
static int open_elsewhere(struct session *session, struct proton_error *err)
{
	const char *base = strrchr(session->path, '/') + 1;
	char *working;

	if (asprintf(&working, "/dev/shm/proton-%d-%s.proton", (int)getpid(), base) < 0)
		return err_nomem(err);
	int status = create_store(session, working, err);
	if (status == PROTON_OK) {
		message("the file system of %s does not support shared mappings; using "
			"the working file %s",
			session->path, working);
	} else {
		status = create_store(session, NULL, err);
		if (status == PROTON_OK)
			message("neither the file system of %s nor /dev/shm can hold the working "
				"file; the profile is kept in memory and is lost if the process is "
				"killed",
				session->path);
	}
	free(working);
	return status;
}

int output_open(struct session *session, struct proton_error *err)
{
	char *working;

	if (!session->path)
		return create_store(session, NULL, err);
	TRY(check_target(session, err));
	file_replace_clean(session->path);
	if (asprintf(&working, "%s.proton", session->path) < 0)
		return err_nomem(err);
	int status = create_store(session, working, err);
	if (status == PROTON_E_BUSY)
		status = open_under_own_name(session, working, err);
	if (status == PROTON_E_UNSUPPORTED)
		status = open_elsewhere(session, err);
	free(working);
	return status;
}

/* ------------------------------------------------------------------ finish */

static int export_to_stdout(const struct export_format *format, const struct profile *profile,
			    struct proton_error *err)
{
	AT_END(out_fini) struct out out;

	out_init(&out, STDOUT_FILENO);
	int status = format->write(profile, &out, err);
	if (status == PROTON_OK)
		status = out_finish(&out, err);
	return status;
}

/* Printed even with `proton -q`: otherwise users take the earlier profile for the new one. */
static void note_kept(const struct session *session, const char *path)
{
	if (!(session->flags & PROTON_SESSION_QUIET) || proton_sessions_are_owned())
		message("the earlier profile %s is kept, because this run has no data", path);
}

int output_write(const struct export_format *format, const struct profile *profile,
		 const char *path, bool no_clobber, struct proton_error *err)
{
	int status = target_check(path, no_clobber, NULL, err);

	if (status == PROTON_OK)
		status = export_to_file(format, profile, path, no_clobber, err);
	if (status == PROTON_OK)
		note_written(path);
	return status;
}

/* Writes the profile, unless it is empty and an earlier one exists. */
static int export_to_path(struct session *session, const struct export_format *format,
			  const struct profile *profile, const char *path, struct proton_error *err)
{
	bool has_earlier = false;

	TRY(target_check(path, may_not_replace(session), &has_earlier, err));
	if (has_earlier && store_counters_are_zero(&session->store, false) &&
	    is_worth_keeping(path)) {
		note_kept(session, path);
		session->has_kept_earlier = true;
		return PROTON_OK;
	}
	return output_write(format, profile, path, may_not_replace(session), err);
}

int output_load_phase(const struct session *session, uint32_t phase, struct profile **out,
		      struct proton_error *err)
{
	int status = store_profile(&session->store, phase, out, err);

	/* The store still counts as being written; this copy of it is final. */
	if (status == PROTON_OK) {
		(*out)->is_unfinished = false;
		(*out)->end_ns = clock_real_ns();
	}
	return status;
}

char *output_part_path(const struct session *session, uint32_t phase,
		       const struct export_format *format)
{
	char *path;

	return asprintf(&path, "%s.part_%u.%s", session->path, phase, format->suffix) < 0 ? NULL
											  : path;
}

static int export_phase(struct session *session, const struct export_format *format, uint32_t phase,
			bool is_part, struct proton_error *err)
{
	struct profile *profile = NULL;
	char *path = NULL;
	int status = output_load_phase(session, phase, &profile, err);

	if (status != PROTON_OK)
		return status;
	if (!session->path) {
		status = export_to_stdout(format, profile, err);
	} else {
		if (is_part)
			path = output_part_path(session, phase, format);
		else if (asprintf(&path, "%s.%s", session->path, format->suffix) < 0)
			path = NULL;
		status = path ? export_to_path(session, format, profile, path, err)
			      : err_nomem(err);
	}
	free(path);
	profile_free(profile);
	return status;
}

/* One file, or after the phase has been advanced one file per phase that was not cleared. */
static int export_all(struct session *session, const struct export_format *format,
		      struct proton_error *err)
{
	uint32_t last = store_phase(&session->store);
	int status = PROTON_OK;

	if (last == 0)
		return export_phase(session, format, 0, false, err);
	for (uint32_t phase = 0; phase <= last && status == PROTON_OK; phase++)
		if (store_phase_is_kept(&session->store, phase))
			status = export_phase(session, format, phase, true, err);
	return status;
}

/* For `<path>.proton`, which was renamed while this run was recorded. */
static bool keeps_earlier_working_file(struct session *session)
{
	const char *earlier = session->store.file.place.earlier;

	if (!earlier || !store_counters_are_zero(&session->store, false) ||
	    !is_worth_keeping(earlier))
		return false;
	note_kept(session, session->store.file.place.path);
	session->has_kept_earlier = true;
	return true;
}

int output_write_packed(struct profile_view *view, const char *path, bool is_exclusive,
			struct proton_error *err)
{
	struct file_replace file;

	TRY(file_replace_begin(&file, path, err));
	view->end_ns = clock_real_ns();
	file.is_exclusive = is_exclusive;
	int status = file_replace_end(&file, profile_view_write(view, &file.out, err), err);
	if (status == PROTON_OK)
		note_written(path);
	return status;
}

/* Rewrites the working file as a packed, complete profile at `<path>.proton`. */
static int keep_working_file(struct session *session, struct proton_error *err)
{
	struct profile_view view;
	char *path;

	if (keeps_earlier_working_file(session))
		return PROTON_OK;
	if (asprintf(&path, "%s.proton", session->path) < 0)
		return err_nomem(err);
	profile_file_view(&session->store.file, &view);
	int status = output_write_packed(&view, path, false, err);
	if (status == PROTON_OK)
		working_file_drop_earlier(&session->store.file.place);
	free(path);
	return status;
}

void output_path(const struct session *session, const struct export_format *format, char *path,
		 size_t capacity)
{
	bool has_parts = format->write && store_phase(&session->store) > 0;

	snprintf(path, capacity, "%s%s.%s", session->path, has_parts ? ".part_*" : "",
		 format->suffix);
}

static void make_summary(const struct session *session, const struct export_format *format)
{
	bool is_trace = format->needs_trace;
	char path[PATH_MAX + 32], hint[PATH_MAX + 64], directory[PATH_MAX], quoted[PATH_MAX + 32];
	const char *shown = path;

	if (!session->path || format == &output_none || session->has_kept_earlier) {
		summary_make(session, NULL);
		return;
	}
	output_path(session, format, path, sizeof(path));
	/* Below the current directory, show the short form that users type. */
	if (getcwd(directory, sizeof(directory))) {
		size_t length = strlen(directory);
		if (strncmp(path, directory, length) == 0 && path[length] == '/')
			shown = path + length + 1;
	}
	/* A shell has to see the star. */
	const char *parts = strstr(shown, ".part_*.");
	if (parts)
		path[parts - path] = '\0';
	if (is_trace)
		snprintf(quoted, sizeof(quoted), "%s", shown);
	else
		shell_quote(quoted, sizeof(quoted), shown);
	snprintf(hint, sizeof(hint), "%s %s%s%s",
		 is_trace ? "open in ui.perfetto.dev:" : "view it with: proton-viewer", quoted,
		 parts ? ".part_*." : "", parts ? parts + strlen(".part_*.") : "");
	summary_make(session, hint);
}

int output_finish(struct session *session, const struct export_format *format,
		  struct proton_error *err)
{
	struct profile_file *file = &session->store.file;
	bool keep = session->flags & PROTON_SESSION_KEEP_WORKING_FILE && session->path;
	struct proton_error why = {0};
	int status = PROTON_OK;

	store_phase_finish(&session->store);
	profile_file_expect_reading(file);
	if (profile_file_is_truncated(file))
		status = err_set(&why, PROTON_E_IO,
				 "cannot write the profile of %s: another program has truncated %s",
				 session->path, file->place.path);
	else if (format->write)
		status = export_all(session, format, &why);
	if (status == PROTON_OK && (keep || format == &output_proton))
		status = keep_working_file(session, &why);
	if (status == PROTON_OK) {
		make_summary(session, format);
		/* A kept file has been replaced by its compact copy, which stays. */
		store_fini(&session->store, true);
		if (session->is_ranked)
			rank_remove_directories(session->path); /* if nothing was written */
		return PROTON_OK;
	}
	profile_file_mark(file, PROFILE_FILE_FINISHED, clock_real_ns());
	/* E_INVALID is reserved for requests that are rejected before the session ends. */
	if (why.status == PROTON_E_INVALID)
		why.status = PROTON_E_IO;
	if (!file->place.path || profile_file_is_truncated(file))
		status = err_set(err, why.status, "%s", why.text);
	else if (!working_file_has_name(&file->place))
		status = err_set(err, why.status, "%s; the recorded data was in %s, which is gone",
				 why.text, file->place.path);
	else
		status = err_set(err, why.status, "%s; the recorded data is in %s", why.text,
				 file->place.path);
	store_fini(&session->store, false);
	return status;
}
