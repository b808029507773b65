/* What a profile says about where it comes from: rows of TABLE_INFO. */
#ifndef RECORD_STORE_RUN_INFO_H
#define RECORD_STORE_RUN_INFO_H

#include "record/session/session.h"

/* How the session was started, the machine and the command line. Before the backend runs. */
void describe_session(struct session *session);
/*
 * What the backend tells: its libraries, and what recording has cost so far. While it runs; the
 * last call counts. The session is not recorded into at that moment.
 */
void describe_backend(struct session *session);

#endif
