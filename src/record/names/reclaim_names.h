/*
 * Reclaiming of names: when the data recorded under a name has been cleared, another name can take
 * its place. See reused_names.h.
 */
#ifndef RECORD_NAMES_RECLAIM_NAMES_H
#define RECORD_NAMES_RECLAIM_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Called after phases were cleared: if there are many new names since the last time, unneeded names
 * give up their places. The registry is locked, and cleared data is no longer published.
 */
void reuse_names(void);

/*
 * Frame `frame` has a new text: updates the files that contain the frame. `has_moved`: it needs
 * more space there than before. False: some file has no space.
 */
bool reuse_in_sessions(uint32_t frame, bool has_moved);

#endif
