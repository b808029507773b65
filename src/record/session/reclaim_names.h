/*
 * Reclaiming of names: when the data recorded under a name has been cleared, another name can take
 * its place. See reused_names.h.
 */
#ifndef RECORD_SESSION_RECLAIM_NAMES_H
#define RECORD_SESSION_RECLAIM_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Called after phases were cleared: if there are many new names since the last time, unneeded names
 * give up their places. The registry is locked, and cleared data is no longer published.
 */
void reclaim_names(void);

#endif
