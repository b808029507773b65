/*
 * Making room for names without end: what was recorded under a name has been cleared, so the name's
 * place can be another one's. See frame_names.h.
 */
#ifndef RECORD_NAMES_RECLAIM_NAMES_H
#define RECORD_NAMES_RECLAIM_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Phases were cleared: if many names have come since the last time, those that nothing needs any
 * more give their places. The registry is locked, and what was cleared is not published any more.
 */
void reuse_names(void);

/*
 * Frame `frame` has another text now: puts it into the files that have the frame. `has_moved`: it
 * needs more room there than before. False: some file has no room.
 */
bool reuse_in_sessions(uint32_t frame, bool has_moved);

#endif
