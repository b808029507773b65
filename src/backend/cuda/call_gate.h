/*
 * Driver calls of the program that are in flight.
 *
 * Calls that launch work or load modules pass a gate, because the recorder's calls that start,
 * stop, enable or disable PC sampling must not happen at the same time on another thread: they wait
 * for each other's locks in CUPTI forever. So does cuptiActivityDisable() with calls that change
 * graphs, modules or contexts. Calls of graphs are counted too: while one is in flight, CUPTI
 * cannot be left (hold.h).
 *
 * Calls that began before they were counted cannot be seen. They are short, unless they wait for
 * one that is counted: so the first closing after a reset lasts a little longer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum call_gate_kind {
	CALL_GATE_LAUNCH,  /* launches, and calls that load modules; passed only while sampling */
	CALL_GATE_QUERY,   /* calls that come often and rarely load */
	CALL_GATE_CHANGE,  /* of graph_calls.def, and ends of captures */
	CALL_GATE_CAPTURE, /* begins of captures */
	CALL_GATE_REPLAY,  /* launches of graphs */
	CALL_GATE_GRAPH,   /* graph_calls.def and launches of graphs; they never wait here */
	CALL_GATE_KINDS,
};

/* To wait for calls that take long: creating a context takes 0.1 to 0.9 s (H200). */
#define CALL_GATE_LONG_NS 1000000000ull
/* Sets of kinds. */
#define CALL_GATE_CHANGES                                                                          \
	(1u << CALL_GATE_CHANGE | 1u << CALL_GATE_CAPTURE | 1u << CALL_GATE_REPLAY)
#define CALL_GATE_SAMPLING (1u << CALL_GATE_LAUNCH | 1u << CALL_GATE_QUERY | CALL_GATE_CHANGES)

/* The calling thread begins or ends such a driver call. Calls nest. */
void call_gate_pass(enum call_gate_kind kind);
void call_gate_leave(enum call_gate_kind kind);
/*
 * Keeps other threads from passing with these kinds until call_gate_open(). False, and open, if
 * another thread has passed and does not leave within `limit_ns`. Launches wait 20 ms at most at a
 * time. One thread at a time may close it.
 */
bool call_gate_close(uint32_t kinds, uint64_t limit_ns);
/* The same while no stream is being captured: first no capture begins, and the others have to end.
 */
bool call_gate_close_between_captures(uint32_t kinds, uint64_t limit_ns);
void call_gate_open(void);
/* The calling thread has closed it. */
bool call_gate_is_closed_here(void);
/* The calling thread is in a call for which one that closes the gate may wait. */
bool call_gate_counts_here(void);
/* The callbacks of these calls have ended: threads that have passed will not leave. */
void call_gate_reset(enum call_gate_kind kind);
/* True while no other thread is in a call of any kind. */
bool call_gate_is_quiet(void);
/* Other threads have passed with this kind since the last reset; they may have ended. */
bool call_gate_has_other_users(enum call_gate_kind kind);
/* The number of calls of graphs in this process. */
uint64_t call_gate_graph_calls(void);
