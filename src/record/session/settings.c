/* Session options: parsing and defaults. */
#include "record/session/settings.h"

#include <strings.h>

#include "format/target.h"
#include "record/session/output.h"
#include "record/session/periodic_flush.h"

int settings_read(const struct proton_session_options *given, struct settings *out,
		  struct proton_error *err)
{
	static const struct proton_session_options defaults = {.size = sizeof(defaults)};
	const struct proton_session_options *o = given ? given : &defaults;
	struct output_format format;
	int status;

	if (o->size != sizeof(*o))
		return err_set(err, PROTON_E_INVALID,
			       "proton_session_options.size is %zu, this library expects %zu",
			       o->size, sizeof(*o));
	*out = (struct settings){
		.name = o->name ? o->name : "proton",
		.mode = o->mode ? o->mode : "",
		.format = o->format ? o->format : "",
		.flags = o->flags,
	};
	if (o->context && strcasecmp(o->context, "python") == 0)
		out->wants_source = true;
	else if (o->context && strcasecmp(o->context, "shadow") != 0)
		return err_set(err, PROTON_E_INVALID, "Unknown context source: %s", o->context);
	if (o->data && strcasecmp(o->data, "trace") == 0)
		out->is_trace = true;
	else if (o->data && strcasecmp(o->data, "tree") != 0)
		return err_set(err, PROTON_E_INVALID, "Unknown data: %s", o->data);
	if (!o->name)
		out->flags |= PROTON_SESSION_RANKS;
	if (target_env_no_clobber())
		out->flags |= PROTON_SESSION_NO_CLOBBER;
	status = output_format_find(out->format, out->is_trace, &format, err);
	if (status == PROTON_OK)
		status = output_format_check(
			&format, target_is_standard_output(out->name) ? NULL : out->name, err);
	if (status != PROTON_OK)
		return status;
	out->backend = backend_select(o->backend, err);
	if (!out->backend)
		return PROTON_E_INVALID;
	status = periodic_flush_read_mode(out->backend->name, out->mode, out->is_trace,
					  &out->periodic, err);
	if (status != PROTON_OK || !out->periodic)
		return status != PROTON_OK ? status : out->backend->check_mode(out->mode, err);
	if (target_is_standard_output(out->name))
		return err_set(err, PROTON_E_INVALID,
			       "mode periodic_flushing writes several files, which standard "
			       "output cannot hold; give a name");
	/* The recorder does the flushing, so the backend runs in its default mode. */
	out->mode = "";
	if (!*out->format)
		out->format = out->periodic->name;
	return PROTON_OK;
}
