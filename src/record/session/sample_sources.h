/* Source files of sampled lines, stored in the profile, which may be read elsewhere. */
#ifndef RECORD_SESSION_SAMPLE_SOURCES_H
#define RECORD_SESSION_SAMPLE_SOURCES_H

#include "record/store/store.h"

/*
 * Stores the text of each file that a line table names: regular files, up to a size. A file that
 * cannot be read is left out. The session has ended.
 */
void sample_sources_store(struct store *store);

#endif
