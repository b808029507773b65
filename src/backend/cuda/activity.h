/* CUPTI's activity records. */
#ifndef BACKEND_CUDA_ACTIVITY_H
#define BACKEND_CUDA_ACTIVITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Activity records: on CUPTI's thread. On failure nothing stays enabled. `is_again`: records were
 * enabled before since CUPTI was attached.
 */
int activity_start(bool is_again, struct proton_error *err);
/* False: they stay on (interface_disable()), and CUPTI cannot be left. */
bool activity_stop(void);
/*
 * Flushes and waits for records; see await_records_flush(). E_IO if CUPTI refuses to flush.
 */
int activity_flush(uint64_t launched, uint32_t last_shared, bool in_doubt,
		   struct proton_error *err);

#endif
