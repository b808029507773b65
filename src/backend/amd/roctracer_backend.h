/* Internal interface of the roctracer backend. */
#ifndef BACKEND_AMD_ROCTRACER_BACKEND_H
#define BACKEND_AMD_ROCTRACER_BACKEND_H

#include <stdbool.h>

#include "base/err.h"

/* Callbacks, on the application's threads. On failure nothing stays enabled. */
int roctracer_launches_start(struct proton_error *err);
void roctracer_launches_stop(void);
int roctracer_launches_set_memory(bool is_wanted, struct proton_error *err);

/* Records, on roctracer's thread. On failure nothing stays enabled. */
int roctracer_records_start(struct proton_error *err);
void roctracer_records_stop(void);
int roctracer_records_set_memory(bool is_wanted, struct proton_error *err);
/* Flushes roctracer's pool. 0, or its error. */
int roctracer_records_flush(void);
/* In the child of a fork: the pool is not usable there. */
void roctracer_records_forget(void);

#endif
