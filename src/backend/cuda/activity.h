/* CUPTI's activity records. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Activity records: on CUPTI's thread. On failure nothing stays enabled. `is_again`: records were
 * enabled before since CUPTI was attached. `is_window`: kernels that run now are not wanted.
 */
int activity_start(bool is_again, bool is_window, struct proton_error *err);
/* False: records stay on, and CUPTI cannot be left. `is_last`: running kernels' are lost. */
bool activity_stop(bool is_last);
/* The number of records of kernels of graphs since the start. */
uint64_t activity_graph_kernels(void);
/* Flushes and waits for records: await_records_flush(). E_IO if CUPTI refuses to flush. */
int activity_flush(uint64_t launched, uint32_t last_shared, bool in_doubt,
		   struct proton_error *err);
