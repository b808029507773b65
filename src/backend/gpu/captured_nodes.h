/* Work captured in graphs, by node id, with the graph's id in its upper 32 bits. */
#pragma once

#include "record/thread/captured.h"

/*
 * The calling thread begins a capture, or has ended one successfully. Metrics that no kernel
 * followed are attributed to the last kernel before them; without any kernel they are counted as
 * lost.
 */
void captured_nodes_begin_capture(void);
void captured_nodes_end_capture(void);

/* A kernel, or a memory operation, was captured on this thread as `node`. `crc`: of its cubin. */
void captured_nodes_add(uint64_t node, bool is_kernel, uint64_t crc);
/* `clone` shares what was captured as `original`; nothing if that is unknown. */
void captured_nodes_clone(uint64_t clone, uint64_t original);
/*
 * The node under which the work of `node` was captured: `source`, from which `node` was made or
 * last updated when it ran, if that is known, else `node`. Cases in which the events tell another
 * origin are counted: a graph may have been updated before the records of its replay arrived.
 */
uint64_t captured_nodes_origin(uint64_t node, uint64_t source);

/* An inner graph is owned by the outermost one, once. Nothing if unknown and not `is_new`. */
void captured_nodes_own(uint32_t graph, uint32_t owner, bool is_new);
/* 0: none. */
uint32_t captured_nodes_owner(uint32_t graph);
void captured_nodes_set_executable(uint32_t graph);
/* The graph is destroyed, with the graphs that it owns. An executable one may still run. */
void captured_nodes_destroy(uint32_t graph, bool is_executable);

/*
 * Adds one record of a graph launch made at `launch`; without `execution` only the metrics of an
 * execution that has no record.
 */
void captured_nodes_record(struct proton_context launch, uint64_t node,
			   const struct execution *execution);
/* The CRC of the cubin of a captured kernel; 0: not known. */
uint64_t captured_nodes_crc(uint64_t node);

/* In an API callback: flushes and frees if many graphs were destroyed since the last flush. */
void captured_nodes_flush_if_due(void);
/* Frees graphs destroyed before a monotonic time; all their records have arrived. */
void captured_nodes_forget_destroyed(uint64_t before_ns);
/* After the last session: frees everything. */
void captured_nodes_clear(void);

/* For tests: the stored nodes; the age at which a destroyed graph is freed without a flush. */
size_t captured_nodes_count(void);
/* Times that captured_nodes_origin() found different origins. */
size_t captured_nodes_differing(void);
void captured_nodes_set_patience(uint64_t ns);
