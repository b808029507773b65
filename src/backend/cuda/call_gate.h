/*
 * Driver calls of the program that are in flight.
 *
 * Calls that launch work or load modules pass a gate, because the recorder's calls that start,
 * stop, enable or disable PC sampling must not happen at the same time on another thread: they wait
 * for each other's locks in CUPTI forever. Calls of graphs are only counted: while one is in
 * flight, CUPTI cannot be left (hold.h).
 */
#ifndef BACKEND_CUDA_CALL_GATE_H
#define BACKEND_CUDA_CALL_GATE_H

#include <stdbool.h>
#include <stdint.h>

enum call_gate_kind {
	CALL_GATE_LAUNCH, /* launches, and calls that load or unload modules */
	CALL_GATE_QUERY,  /* calls that come often and rarely load; reported only on request */
	CALL_GATE_GRAPH,  /* graph_calls.def and launches of graphs; they never wait here */
	CALL_GATE_KINDS,
};

/* The calling thread begins or ends such a driver call. Calls nest. */
void call_gate_pass(enum call_gate_kind kind);
void call_gate_leave(enum call_gate_kind kind);
/*
 * Keeps other threads from passing until call_gate_open(). False, and open, if another thread has
 * passed and does not leave within `limit_ns`. One thread at a time may close it.
 */
bool call_gate_close(uint64_t limit_ns);
void call_gate_open(void);
/* The callbacks of these calls have ended: threads that have passed will not leave. */
void call_gate_reset(enum call_gate_kind kind);
/* True while no other thread is in a call of any kind. */
bool call_gate_is_quiet(void);
/* The number of calls of graphs in this process. */
uint64_t call_gate_graph_calls(void);

#endif
