/* Session options: checked, with defaults filled in. */
#ifndef RECORD_SESSION_SETTINGS_H
#define RECORD_SESSION_SETTINGS_H

#include <libproton/proton.h>
#include <stdbool.h>

#include "export/export.h"
#include "record/backend.h"

/* Strings are borrowed from the caller. */
struct settings {
	const char *name;
	const char *mode;
	const char *format;
	const struct backend *backend;
	const struct export_format *periodic; /* see periodic_flush_read_mode() */
	bool wants_source;
	bool is_trace;
	bool is_ranked; /* the output is that of a rank, see format/rank.h */
	uint32_t flags;
};

/* `given` NULL means all defaults. E_INVALID with a message. */
int settings_read(const struct proton_session_options *given, struct settings *out,
		  struct proton_error *err);

#endif
