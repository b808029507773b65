/* Info rows of a profile (TABLE_INFO): command line, machine, versions. */
#ifndef RECORD_SESSION_RUN_INFO_H
#define RECORD_SESSION_RUN_INFO_H

#include "record/sets/session.h"

/* Adds session options, machine and command line. Call it before the backend runs. */
void run_info_add_session(struct session *session);
/*
 * Adds the backend's info: its libraries, and the overhead of recording so far. Call it while the
 * backend runs and nothing is recorded into the session; the last call counts.
 */
void run_info_add_backend(struct session *session);

#endif
