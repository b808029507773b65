/* Recorder interface for backends: launches of instrumented kernels. */
#ifndef RECORD_SETS_RECORD_INTRA_H
#define RECORD_SETS_RECORD_INTRA_H

#include "record/store/intra_launch.h"

/* Adds the launch to every trace that was active at its `where`. False if out of memory. */
bool record_intra(const struct intra_launch *launch);
/*
 * Counts a sampled launch at `where`, and adds the device to those of the sessions, for the
 * launch's metrics.
 */
void record_intra_launch(struct proton_context where, uint32_t device);
/* True if there is such a trace. */
bool record_wants_intra(struct proton_context where);

#endif
