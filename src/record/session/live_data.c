/* Reading a live session: its data, phases and depth. */
#include <stdlib.h>
#include <strings.h>

#include <libproton/proton.h>

#include "export/export.h"
#include "model/load.h"
#include "record/session/session_parts.h"
#include "record/sets/registry.h"
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
	int status;

	adding_pause(session);
	store_counters_add_folded(&session->store);
	status = store_profile(&session->store, phase, out, err);
	adding_resume(session);
	return status;
}

static int write_text(const struct export_format *format, const struct profile *profile,
		      char **bytes_out, size_t *length_out, struct proton_error *err)
{
	struct out out;
	int status;

	out_init(&out, -1);
	status = format->write(profile, &out, err);
	if (status == PROTON_OK)
		status = out_finish_text(&out, bytes_out, length_out, err);
	out_fini(&out);
	return status;
}

int proton_data_get(int id, uint32_t phase, const char *format_name, char **bytes_out,
		    size_t *length_out, struct proton_error *err)
{
	const struct export_format *format = format_in_memory(format_name);
	const struct profile *written;
	struct profile *profile = NULL;
	struct session *session;
	int status;

	if (!format)
		return err_set(err, PROTON_E_INVALID,
			       "Unknown output format: %s; expected " EXPORT_NAMES, format_name);
	if (phase == PHASE_ALL)
		return err_set(err, PROTON_E_RANGE, "Phase %u has no data.", phase);
	session = registry_get(id, err);
	if (!session)
		return PROTON_E_RANGE;
	written = registry_part(session, phase);
	status = written ? write_text(format, written, bytes_out, length_out, err)
			 : copy_profile(session, phase, &profile, err);
	registry_put();
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
	bool is_periodic;
	uint32_t phase;

	if (!session)
		return PROTON_E_RANGE;
	is_periodic = session->periodic;
	pthread_mutex_lock(&session->lock);
	store_phase_begin(&session->store, store_phase(&session->store) + 1);
	phase = store_phase(&session->store);
	pthread_mutex_unlock(&session->lock);
	session_publish();
	registry_put();
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
	registry_put();
	return PROTON_OK;
}

int proton_phase_clear(int id, uint32_t phase, bool up_to, struct proton_error *err)
{
	struct session *session = registry_get(id, err);
	uint32_t current;

	if (!session)
		return PROTON_E_RANGE;
	adding_pause(session);
	current = store_phase(&session->store);
	if (up_to && phase > current)
		phase = current;
	if (phase <= current)
		store_phase_clear(&session->store, phase, up_to);
	adding_resume(session);
	if (registry_part(session, phase) || (up_to && session->written_phase < phase))
		registry_forget_part(session);
	session_publish();
	reclaim_names();
	registry_put();
	return PROTON_OK;
}

int proton_context_depth(int id, size_t *depth_out, struct proton_error *err)
{
	struct session *session = registry_get(id, err);
	bool wants_source;

	if (!session)
		return PROTON_E_RANGE;
	wants_source = session->wants_source;
	registry_put();
	*depth_out = thread_context_depth(wants_source);
	return PROTON_OK;
}
