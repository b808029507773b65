/* Holding the program's threads outside of the driver while CUPTI is attached or left. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* CUPTI is about to be attached: nothing is known of the threads' calls of graphs. */
void hold_start(void);
/* A call of a graph begins on this thread. */
void hold_note_call(void);
/* A host function is launched on a stream, or added to a graph. */
void hold_note_host_function(void);
/* True if this thread has made such a call since CUPTI was attached. */
bool hold_uses_graphs_here(void);
/*
 * Holds every thread that has called a driver function of graphs, outside of the driver, until
 * hold_end() on this thread, with nothing running on the GPUs and no stream being captured. False
 * with the reason, a clause: threads run that cannot be held, or one does not leave the driver
 * within 0.3 s, or the GPU is not idle in that time. Nothing is held then. `synchronize` waits for
 * a context, with it current.
 */
bool hold_begin(bool (*synchronize)(void *context), const char **why_out);
void hold_end(void);
/* While held: true once no call has been in flight for a while; false if that takes too long. */
bool hold_is_quiet(void);
/*
 * Holds the threads for attaching, with unknown calls in flight: these end. Waits for threads in an
 * ioctl of the devices, held or not; the first time in the process, until all are outside of the
 * driver. False: no holder.
 */
bool hold_begin_to_attach(const char *devices, bool is_first);
/* Threads that cannot be held, use graphs, and have not ended. */
uint32_t hold_count_loose(void);
/* True while this process holds its threads. */
bool hold_is_on(void);
/* Launches and loads of other threads, which PC sampling counts, may begin: nothing holds them. */
bool hold_misses_launches(void);
/* Since when, and the time for which this process has held threads until now. */
uint64_t hold_since_ns(void);
uint64_t hold_spent_ns(void);
