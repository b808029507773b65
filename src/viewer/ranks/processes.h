/*
 * Processes of proton-merge: of MPI, connected by pipes, or this process alone. Failures of MPI end
 * all processes, as MPI does by default.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct processes {
	int number; /* this process, from 0 */
	int count;
	bool is_idle; /* another process does the work of all */
};

struct processes processes_begin(int *argc, char ***argv);
/* Ends all processes with this exit status. */
void processes_end(int status);
/* The bytes of process 0 in all processes; malloc'd in the others. */
void processes_share(char **bytes, size_t *length);
void processes_send(int to, const void *bytes, size_t length);
/* Receives exactly `length` bytes. */
void processes_receive(int from, void *bytes, size_t length);
