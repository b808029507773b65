/* Snapshots: a complete profile of a live session, by reading its working file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libproton/proton.h>

#include "base/clock.h"
#include "format/profile_snapshot.h"
#include "format/target.h"
#include "model/load.h"
#include "record/session/session_parts.h"
#include "record/sets/registry.h"
#include "record/thread/adding.h"

struct snapshot_plan {
	char *working; /* path of the working file; NULL: it is in memory */
	char *path;    /* the output */
	struct output_format format;
	bool no_clobber;
	struct profile *profile;
};

static void free_plan(struct snapshot_plan *plan)
{
	free(plan->working);
	free(plan->path);
	profile_free(plan->profile);
}

static int name_snapshot(struct session *session, const char *name, struct snapshot_plan *plan,
			 struct proton_error *err)
{
	const char *suffix = plan->format.kind == OUTPUT_EXPORT ? plan->format.export->suffix
								: "proton";
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
	if (status == PROTON_OK && (!stem || asprintf(&plan->path, "%s.%s", stem, suffix) < 0)) {
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
	int status = output_format_find(format && *format ? format : session->format,
					session->trace != 0, &plan->format, err);

	if (status == PROTON_OK && plan->format.kind == OUTPUT_NONE)
		status = err_set(err, PROTON_E_INVALID, "a snapshot needs an output format");
	if (status == PROTON_OK)
		status = name_snapshot(session, name, plan, err);
	if (status != PROTON_OK)
		return status;
	plan->no_clobber = session->flags & PROTON_SESSION_NO_CLOBBER;
	pthread_mutex_lock(&session->lock);
	store_counters_add_folded(&session->store);
	store_align(&session->store);
	pthread_mutex_unlock(&session->lock);
	if (session->store.file.place.path) {
		plan->working = strdup(session->store.file.place.path);
		return plan->working ? PROTON_OK : err_nomem(err);
	}
	if (plan->format.kind == OUTPUT_PROTON)
		return err_set(err, PROTON_E_UNSUPPORTED,
			       "a session without a working file has no snapshot in the format "
			       "proton; use hatchet");
	adding_pause(session);
	status = output_load_phase(session, PHASE_ALL, &plan->profile, err);
	adding_resume(session);
	return status;
}

static int write_packed(const struct snapshot_plan *plan, struct proton_error *err)
{
	int status = target_check(plan->path, plan->no_clobber, NULL, err);
	struct profile_view view;
	char *bytes;
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
	free(bytes);
	return status;
}

static int write_snapshot(struct snapshot_plan *plan, struct proton_error *err)
{
	int status = PROTON_OK;

	if (plan->format.kind == OUTPUT_PROTON)
		return write_packed(plan, err);
	if (!plan->profile)
		status = profile_load_file(plan->working, &plan->profile, err);
	if (status != PROTON_OK)
		return status;
	plan->profile->is_unfinished = false;
	plan->profile->end_ns = clock_real_ns();
	return output_write(plan->format.export, plan->profile, plan->path, plan->no_clobber, err);
}

int proton_snapshot(int id, const char *name, const char *format, char *path_out, size_t capacity,
		    struct proton_error *err)
{
	struct snapshot_plan plan = {0};
	struct session *session;
	int status = registry_flush_backends(id, err);

	if (status != PROTON_OK)
		return status;
	session = registry_get(id, err);
	if (!session)
		return PROTON_E_RANGE;
	status = plan_snapshot(session, name, format, &plan, err);
	registry_put();
	if (status == PROTON_OK)
		status = write_snapshot(&plan, err);
	if (status == PROTON_OK && path_out)
		snprintf(path_out, capacity, "%s", plan.path);
	free_plan(&plan);
	return status;
}
