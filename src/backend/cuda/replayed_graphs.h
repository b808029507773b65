/*
 * Executable graphs that were replayed since CUPTI was attached. CUPTI patches a graph at its first
 * replay with kernel records and again at its first replay without; the context is lost if CUPTI is
 * left while a graph is patched for "without" (measured with CUPTI 13.0 to 13.5: `rga1r0rFr` in
 * docs/design/other-tools.md).
 */
#ifndef BACKEND_CUDA_REPLAYED_GRAPHS_H
#define BACKEND_CUDA_REPLAYED_GRAPHS_H

#include <stdbool.h>

/* A replay begins, with kernel records. No lock. */
void replayed_graphs_note(const void *exec);
/* The graph is destroyed. */
void replayed_graphs_forget(const void *exec);
/* Records end, but CUPTI stays attached: replays from now on are not seen. */
void replayed_graphs_unwatch(void);
/* Records have begun before, and some graph may have been replayed without them since. */
bool replayed_graphs_are_suspect(void);
bool replayed_graphs_any(void);
/* CUPTI was left. */
void replayed_graphs_clear(void);

#endif
