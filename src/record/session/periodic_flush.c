/* Mode "periodic_flushing": writing phases when they end. */
#include "record/session/session_parts.h"

#include <strings.h>

#include "base/message.h"
#include "record/sets/session.h"
#include "record/thread/adding.h"

#define MODE "periodic_flushing"
#define FORMAT "format="

int periodic_flush_read_mode(const char *backend, const char *mode, bool is_trace,
			     const struct export_format **format_out, struct proton_error *err)
{
	size_t length = strcspn(mode, ":");
	const char *option = mode[length] ? mode + length + 1 : "";

	*format_out = NULL;
	if (length != strlen(MODE) || strncasecmp(mode, MODE, length) != 0)
		return PROTON_OK;
	if (*option && strncmp(option, FORMAT, strlen(FORMAT)) != 0)
		return err_set(err, PROTON_E_INVALID,
			       "%s: unsupported option key: %.*s; " MODE " has the option format",
			       backend, (int)strcspn(option, "=:"), option);
	option += *option ? strlen(FORMAT) : 0;
	const struct export_format *format = output_format_find(option, is_trace, err);
	if (!format || !format->write)
		return err_set(err, PROTON_E_INVALID, "%s: unsupported format: %s; available%s",
			       backend, option,
			       is_trace ? ": chrome_trace, perfetto, hatchet, hatchet_msgpack"
					: ": hatchet, hatchet_msgpack; traces have others");
	*format_out = format;
	return PROTON_OK;
}

/* A phase to be written: a copy of its data. */
struct part {
	const struct export_format *format;
	struct profile *profile;
	char *path;
	uint32_t phase;
	bool no_clobber;
};

static void free_part(struct part *part)
{
	profile_free(part->profile);
	free(part->path);
}

/* Closes the first ended phase that is kept and that no other thread writes; false: none. */
static bool close_next(struct session *session, uint32_t *phase_out)
{
	struct store *store = &session->store;
	uint32_t end = store_phase(store);
	uint32_t phase = session->first_part;

	while (phase < end && !store_phase_is_kept(store, phase))
		phase++;
	session->first_part = phase;
	while (phase < end &&
	       (!store_phase_is_kept(store, phase) || !store_phase_close(store, phase, true)))
		phase++;
	*phase_out = phase;
	return phase < end;
}

/* Closes a phase and copies its data; false: there is none, or out of memory. */
static bool take_part(int id, struct part *out)
{
	struct session *session = registry_get(id, NULL);
	struct proton_error err;
	bool is_taken = false;

	*out = (struct part){0};
	if (!session)
		return false;
	adding_pause(session);
	if (session->periodic && close_next(session, &out->phase)) {
		out->format = session->periodic;
		out->no_clobber = session->flags & PROTON_SESSION_NO_CLOBBER;
		store_counters_add_folded(&session->store);
		if (output_load_phase(session, out->phase, &out->profile, &err) != PROTON_OK)
			message("phase %u is not written yet: %s", out->phase, err.text);
		else
			out->path = output_part_path(session, out->phase, out->format);
		is_taken = out->profile && out->path;
		if (!is_taken)
			store_phase_close(&session->store, out->phase, false);
	}
	adding_resume(session);
	pthread_mutex_unlock(&registry.lock);
	if (!is_taken)
		free_part(out);
	return is_taken;
}

/* Reopens a phase that could not be written; it takes records again. */
static void keep_part(int id, const struct part *part)
{
	struct session *session = registry_get(id, NULL);

	if (!session)
		return;
	adding_pause(session);
	store_phase_close(&session->store, part->phase, false);
	adding_resume(session);
	pthread_mutex_unlock(&registry.lock);
}

/* The part is written: its phase is cleared, and its copy replaces an earlier phase's. */
static int clear_part(int id, struct part *part, struct proton_error *err)
{
	int status = proton_phase_clear(id, part->phase, false, err);
	struct session *session = status == PROTON_OK ? registry_get(id, err) : NULL;

	if (!session)
		return status;
	if (!session->written_part || session->written_phase < part->phase) {
		registry_forget_part(session);
		session->written_part = part->profile;
		session->written_phase = part->phase;
		part->profile = NULL;
	}
	pthread_mutex_unlock(&registry.lock);
	return status;
}

void periodic_flush(int id)
{
	struct proton_error err;
	struct part part;

	if (registry_flush_backends(id, &err) != PROTON_OK)
		message("%s", err.text);
	while (take_part(id, &part)) {
		int status =
			output_write(part.format, part.profile, part.path, part.no_clobber, &err);

		if (status == PROTON_OK)
			status = clear_part(id, &part, &err);
		if (status != PROTON_OK) {
			message("phase %u is kept in memory: %s", part.phase, err.text);
			keep_part(id, &part);
			free_part(&part);
			return;
		}
		free_part(&part);
	}
}
