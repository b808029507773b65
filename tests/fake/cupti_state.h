/* Internal interface between the files of the fake libcupti. */
#ifndef TESTS_FAKE_CUPTI_STATE_H
#define TESTS_FAKE_CUPTI_STATE_H

#include <stdbool.h>

#include "fake/fake_cupti.h"

/* cupti_subscribe.c: calls the subscriber if it enabled this. */
bool subscribe_wants(uint32_t domain, uint32_t call);
void subscribe_notify(uint32_t domain, uint32_t call, const void *data);
bool subscribe_is_idle(void);
/* State after cuptiFinalize(). */
void subscribe_reset(void);
uint32_t subscribe_next_correlation(void);

/* cupti_records.c. */
bool records_are_enabled(int kind);
void records_add(const void *record, size_t bytes);
bool records_are_idle(void);
void records_reset(void);
/* On the application's thread: a buffer is asked for as soon as one is needed. */
void records_prepare(void);

/* cupti_pc_sampling.c: cuptiFinalize(), a destroyed context, a launch of a function. */
void pc_sampling_reset(void);
bool pc_sampling_is_any_enabled(void);
void pc_sampling_context_destroyed(void *context);
void pc_sampling_launch(void *function);
/* A launch or a loading begins or ends on this thread. */
void pc_sampling_busy(bool is_begin);

/*
 * cupti_subscribe.c: called by every function that the real library serves with its own threads.
 * A forked child lacks these threads, and such a call waits for them forever. Here it ends the
 * child with SIGABRT and a line, which a test can see.
 */
void subscribe_use(const char *call);

/* cupti_version.c: as cuptiGetVersion gives it, and the bytes of a record. */
uint32_t version_code(void);
size_t version_record_bytes(uint32_t kind);

#endif
