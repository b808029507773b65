/*
 * Mode "periodic_flushing": each phase is written to its own file once the next one has begun, and
 * then cleared, so that a long run keeps one phase.
 */
#ifndef RECORD_SESSION_PERIODIC_FLUSH_H
#define RECORD_SESSION_PERIODIC_FLUSH_H

#include "base/err.h"
#include "export/export.h"

#include <stdbool.h>

/*
 * Reads "periodic_flushing[:format=NAME]"; any other mode gives *format_out NULL. `backend` is
 * named in errors. E_INVALID: another option, a format that cannot be written of such data.
 */
int periodic_read_mode(const char *backend, const char *mode, bool is_trace,
		       const struct export_format **format_out, struct proton_error *err);

/*
 * Session `id` has begun a phase: waits for the work launched so far, writes the phases before it
 * that were not cleared as `<path>.part_<phase>.<suffix>` and clears them. A file that cannot be
 * written is noted; its phase is kept and tried again. Nothing happens in other modes.
 */
void periodic_flush(int id);

#endif
