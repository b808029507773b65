/* Reading a live session: its data, phases and depth, and snapshots. */
#include <stdio.h>
#include <strings.h>

#include <libproton/proton.h>

#include "base/array.h"
#include "base/clock.h"
#include "export/export.h"
#include "format/profile_snapshot.h"
#include "format/target.h"
#include "model/load.h"
#include "record/session/session_parts.h"
#include "record/sets/session.h"
#include "record/thread/adding.h"
#include "record/thread/thread.h"

/* JSON in memory is compact, because no user reads it. */
static const struct export_format *format_in_memory(const char *name)
{
	static const struct export_format compact = {
		.name = "hatchet", .suffix = "hatchet", .write = export_hatchet_compact};

	if (!name || !*name || strcasecmp(name, "hatchet") == 0)
		return &compact;
	return export_format_find(name);
}

static int copy_profile(struct session *session, uint32_t phase, struct profile **out,
			struct proton_error *err)
{
	adding_pause(session);
	store_counters_add_folded(&session->store);
	int status = store_profile(&session->store, phase, out, err);
	adding_resume(session);
	return status;
}

static int write_text(const struct export_format *format, const struct profile *profile,
		      char **bytes_out, size_t *length_out, struct proton_error *err)
{
	AT_END(out_fini) struct out out;

	out_init(&out, -1);
	int status = format->write(profile, &out, err);
	if (status == PROTON_OK)
		status = out_finish_text(&out, bytes_out, length_out, err);
	return status;
}

int proton_data_get(int id, uint32_t phase, const char *format_name, char **bytes_out,
		    size_t *length_out, struct proton_error *err)
{
	const struct export_format *format = format_in_memory(format_name);
	struct profile *profile = NULL;

	if (!format)
		return err_set(err, PROTON_E_INVALID,
			       "Unknown output format: %s; expected " EXPORT_NAMES, format_name);
	if (phase == PHASE_ALL)
		return err_set(err, PROTON_E_RANGE, "Phase %u has no data.", phase);
	struct session *session = registry_get(id, err);
	if (!session)
		return PROTON_E_RANGE;
	const struct profile *written = registry_part(session, phase);
	int status = written ? write_text(format, written, bytes_out, length_out, err)
			     : copy_profile(session, phase, &profile, err);
	pthread_mutex_unlock(&registry.lock);
	if (profile)
		status = write_text(format, profile, bytes_out, length_out, err);
	profile_free(profile);
	return status;
}

void proton_free(void *memory)
{
	free(memory);
}

int proton_phase_advance(int id, uint32_t *phase_out, struct proton_error *err)
{
	struct session *session = registry_get(id, err);

	if (!session)
		return PROTON_E_RANGE;
	bool is_periodic = session->periodic;
	pthread_mutex_lock(&session->lock);
	store_phase_begin(&session->store, store_phase(&session->store) + 1);
	uint32_t phase = store_phase(&session->store);
	pthread_mutex_unlock(&session->lock);
	session_publish();
	pthread_mutex_unlock(&registry.lock);
	if (is_periodic)
		periodic_flush(id);
	if (phase_out)
		*phase_out = phase;
	return PROTON_OK;
}

int proton_phase_is_complete(int id, uint32_t phase, bool *complete_out, struct proton_error *err)
{
	struct session *session = registry_get(id, err);

	if (!session)
		return PROTON_E_RANGE;
	pthread_mutex_lock(&session->lock);
	*complete_out = store_phase_is_complete(&session->store, phase);
	pthread_mutex_unlock(&session->lock);
	pthread_mutex_unlock(&registry.lock);
	return PROTON_OK;
}

int proton_phase_clear(int id, uint32_t phase, bool up_to, struct proton_error *err)
{
	struct session *session = registry_get(id, err);

	if (!session)
		return PROTON_E_RANGE;
	adding_pause(session);
	uint32_t current = store_phase(&session->store);
	if (up_to && phase > current)
		phase = current;
	if (phase <= current)
		store_phase_clear(&session->store, phase, up_to);
	adding_resume(session);
	if (registry_part(session, phase) || (up_to && session->written_phase < phase))
		registry_forget_part(session);
	session_publish();
	reclaim_names();
	pthread_mutex_unlock(&registry.lock);
	return PROTON_OK;
}

int proton_context_depth(int id, size_t *depth_out, struct proton_error *err)
{
	struct session *session = registry_get(id, err);

	if (!session)
		return PROTON_E_RANGE;
	bool wants_source = session->wants_source;
	pthread_mutex_unlock(&registry.lock);
	*depth_out = thread_context_depth(wants_source);
	return PROTON_OK;
}

/* ------------------------------------------------------------------ snapshots */

/* A complete profile of a live session, by reading its working file. */
struct snapshot_plan {
	char *working; /* path of the working file; NULL: it is in memory */
	char *path;    /* the output */
	const struct export_format *format;
	bool no_clobber;
	struct profile *profile;
};

static int name_snapshot(struct session *session, const char *name, struct snapshot_plan *plan,
			 struct proton_error *err)
{
	char *stem = NULL;
	int status = PROTON_OK;

	if (name && target_is_standard_output(name))
		return err_set(err, PROTON_E_INVALID, "a snapshot needs the name of a file");
	if (!name && !session->path)
		return err_set(err, PROTON_E_INVALID,
			       "the session writes to standard output; name a file for the "
			       "snapshot");
	if (name)
		status = target_stem(name, &stem, err);
	else if (asprintf(&stem, "%s.snapshot_%u", session->path, ++session->snapshots) < 0)
		stem = NULL;
	if (status == PROTON_OK &&
	    (!stem || asprintf(&plan->path, "%s.%s", stem, plan->format->suffix) < 0)) {
		plan->path = NULL;
		status = err_nomem(err);
	}
	free(stem);
	return status;
}

/* Everything that needs the session; the registry is locked. */
static int plan_snapshot(struct session *session, const char *name, const char *format,
			 struct snapshot_plan *plan, struct proton_error *err)
{
	plan->format = output_format_find(format && *format ? format : session->format,
					  session->trace != 0, err);
	if (!plan->format)
		return PROTON_E_INVALID;
	if (plan->format == &output_none)
		return err_set(err, PROTON_E_INVALID, "a snapshot needs an output format");
	TRY(name_snapshot(session, name, plan, err));
	plan->no_clobber = session->flags & PROTON_SESSION_NO_CLOBBER;
	pthread_mutex_lock(&session->lock);
	store_counters_add_folded(&session->store);
	store_event_align(&session->store);
	pthread_mutex_unlock(&session->lock);
	if (session->store.file.place.path) {
		plan->working = strdup(session->store.file.place.path);
		return plan->working ? PROTON_OK : err_nomem(err);
	}
	if (plan->format == &output_proton)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "a session without a working file has no snapshot in the format "
			       "proton; use hatchet");
	adding_pause(session);
	int status = output_load_phase(session, PHASE_ALL, &plan->profile, err);
	adding_resume(session);
	return status;
}

static int write_packed(const struct snapshot_plan *plan, struct proton_error *err)
{
	int status = target_check(plan->path, plan->no_clobber, NULL, err);
	struct profile_view view;
	AUTO_FREE char *bytes = NULL;
	size_t length;

	if (status != PROTON_OK)
		return status;
	if (!profile_snapshot_read(plan->working, &bytes, &length))
		return err_set(err, PROTON_E_IO,
			       "cannot read the working file %s: it is gone or truncated",
			       plan->working);
	status = profile_view_open(&view, bytes, length, err);
	if (status == PROTON_OK) {
		status = output_write_packed(&view, plan->path, plan->no_clobber, err);
		profile_view_fini(&view);
	}
	return status;
}

static int write_snapshot(struct snapshot_plan *plan, struct proton_error *err)
{
	struct profile *profile = plan->profile;
	int status = PROTON_OK;

	if (plan->format == &output_proton)
		return write_packed(plan, err);
	if (!profile)
		status = profile_load_file(plan->working, &profile, err);
	if (status != PROTON_OK)
		return status;
	plan->profile = profile;
	profile->is_unfinished = false;
	profile->end_ns = clock_real_ns();
	return output_write(plan->format, profile, plan->path, plan->no_clobber, err);
}

int proton_snapshot(int id, const char *name, const char *format, char *path_out, size_t capacity,
		    struct proton_error *err)
{
	struct snapshot_plan plan = {0};

	TRY(registry_flush_backends(id, err));
	struct session *session = registry_get(id, err);
	if (!session)
		return PROTON_E_RANGE;
	int status = plan_snapshot(session, name, format, &plan, err);
	pthread_mutex_unlock(&registry.lock);
	if (status == PROTON_OK)
		status = write_snapshot(&plan, err);
	if (status == PROTON_OK && path_out)
		snprintf(path_out, capacity, "%s", plan.path);
	FREE_ALL(plan.working, plan.path);
	profile_free(plan.profile);
	return status;
}
