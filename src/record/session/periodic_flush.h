/*
 * Mode "periodic_flushing": each phase is written to its own file after the next one has begun, and
 * then cleared. A copy of the last one can be read until the next is written. A long run therefore
 * keeps only two phases.
 */
#ifndef RECORD_SESSION_PERIODIC_FLUSH_H
#define RECORD_SESSION_PERIODIC_FLUSH_H

#include "base/err.h"
#include "export/export.h"

#include <stdbool.h>

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

#endif
