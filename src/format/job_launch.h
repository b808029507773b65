/*
 * Launches: which start of a job this rank belongs to. Ranks of one launch may be summed, those of
 * an earlier one of the same name may not.
 *
 * Some launchers number their launches, in variables that are equal in all ranks. Others do not:
 * torchrun with a fixed port starts twice with equal variables. But each start is another process
 * on each machine, so the launcher's process tells the launches of a machine apart.
 */
#ifndef FORMAT_JOB_LAUNCH_H
#define FORMAT_JOB_LAUNCH_H

#include "format/rank.h"

struct job_launch {
	char id[256];     /* equal in all ranks of a launch, mostly not in others; or "" */
	char process[96]; /* the launcher's: equal in all ranks of a launch on a machine; or "" */
};

void job_launch_read(const struct rank_identity *identity, struct job_launch *out);

#endif
