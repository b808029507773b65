/* Internal interface between the files of the fake libcupti. */
#pragma once

#include <stdbool.h>

#include "backend/cuda/host_abi.h"
#include "fake/fake_cupti.h"

/* Subscribers: 0 uses the first interface, the others the second. */
#define SUBSCRIBERS 5

/* cupti_subscribe.c: calls each subscriber that enabled this. */
bool subscribe_wants(uint32_t domain, uint32_t call);
void subscribe_notify(uint32_t domain, uint32_t call, const void *data);
/* -1 for an unknown handle. */
int subscribe_index(void *handle);
bool subscribe_is_idle(void);
/* Before the first call of CUPTI, and after cuptiFinalize(). */
bool subscribe_is_detached(void);
bool subscribe_is_shared(void);
/* State after cuptiFinalize(). */
void subscribe_reset(void);
uint32_t subscribe_next_correlation(void);

/* cupti_records.c. */
bool records_are_enabled(int kind);
void records_add(const void *record, size_t bytes);
bool records_are_idle(void);
void records_reset(void);
/* A subscriber of the second interface is gone. */
void records_forget(int subscriber);
/* Begins or ends a kind of a subscriber of the second interface. CUPTI's result. */
int records_enable(int subscriber, int kind, bool on);
/* On the application's thread: a buffer is asked for as soon as one is needed. */
void records_prepare(void);

/* cupti_second.c: records in the layout that a subscriber has selected. */
/* Makes it from the first interface's record. Its bytes; 0: the kind is not selected. */
size_t second_encode(int subscriber, const void *record, uint8_t *out);
/* For a completed buffer. Valid on this thread until the next call. */
const struct cupti_complete_info *second_info(int subscriber);
void second_forget(int subscriber);

/* cupti_graphs.c: the node from which a graph's node was made; 0: none. */
uint64_t graphs_source(uint64_t node);
/* cuptiFinalize() has worked. */
void graphs_left(void);
/* A replay has failed: the context of the process cannot be used any more. */
bool graphs_are_lost(void);

/* cupti_pc_sampling.c: cuptiFinalize(), a destroyed context, a launch of a function. */
void pc_sampling_reset(void);
bool pc_sampling_is_any_enabled(void);
void pc_sampling_context_destroyed(void *context);
void pc_sampling_launch(void *function);
/* A graph is replayed. */
void pc_sampling_replay(void);
/* A launch or a loading begins or ends on this thread. */
void pc_sampling_busy(bool is_begin);

/* cupti_range.c: passes of metrics, for the host profiler in cupti_pm.c. */
struct range_load {
	uint32_t passes; /* the maximum over them */
	uint32_t tensor;
	uint32_t vector;
	uint32_t all;
};

bool range_has_metric(const char *name);
void range_add_load(const char *name, struct range_load *load);
uint32_t range_passes(const struct range_load *load);
/* False: it is not an image of the range profiler. */
bool range_evaluate(const struct host_evaluate_params *params);
/* A kernel runs; true if it is in a range. */
bool range_launch(const char *name, uint32_t blocks);
/* cuptiFinalize(). */
void range_reset(void);
void range_context_destroyed(const void *context);

/*
 * cupti_subscribe.c: called by every function that the real library serves with its own threads.
 * A forked child lacks these threads, and such a call waits for them forever. Here it ends the
 * child with SIGABRT and a line, which a test can see.
 */
void subscribe_use(const char *call);

/*
 * A call that loads a module, makes a context or changes a graph begins or ends on this thread.
 * While another thread is in one, some of CUPTI's functions end the process. The real
 * cuptiActivityDisable() waits forever, as the call does (measured with 13.0 alone), and after
 * cuptiSubscribe() or before cuptiUnsubscribe() the call crashes: it reads a table that is not
 * allocated yet, or freed (13.0, its machine code).
 */
void subscribe_change(bool is_begin);
void subscribe_exclude(const char *call);
/* The number of open captures, whether a subscriber saw them begin or not. */
uint32_t subscribe_captures(void);

/* cupti_version.c: as cuptiGetVersion gives it, and the bytes of a record. */
uint32_t version_code(void);
size_t version_record_bytes(uint32_t kind);
void fake_driver_version(int *version);
