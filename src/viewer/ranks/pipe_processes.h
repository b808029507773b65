/*
 * Processes of proton-merge without MPI: each has a parent that passes messages between them.
 * triton_proton.ranks is such a parent, with torch.distributed.
 *
 * PROTON_MERGE_PIPE is "NUMBER/COUNT". On standard output a process writes a request, struct
 * pipe_request. PIPE_SEND is followed by the bytes. For PIPE_RECEIVE, the parent writes the bytes
 * to standard input.
 */
#ifndef VIEWER_RANKS_PIPE_PROCESSES_H
#define VIEWER_RANKS_PIPE_PROCESSES_H

#include <stdint.h>

#include "viewer/ranks/processes.h"

enum pipe_operation {
	PIPE_SEND = 1,
	PIPE_RECEIVE = 2,
};

struct pipe_request {
	uint32_t operation;
	uint32_t peer; /* number of the other process */
	uint64_t length;
};

/* False: PROTON_MERGE_PIPE is not set. */
bool pipe_processes_begin(struct processes *self_out);
void pipe_processes_share(char **bytes, size_t *length);
/* A broken pipe ends the process: the parent has given up. */
void pipe_processes_send(int to, const void *bytes, size_t length);
void pipe_processes_receive(int from, void *bytes, size_t length);

#endif
