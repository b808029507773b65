/*
 * PC samples in a store: rows per instruction and stall reason, the time of functions in kernel
 * rows, and the code objects and source files that they refer to. As in store.h, the session's lock
 * is held around every call.
 */
#ifndef RECORD_STORE_STORE_SAMPLES_H
#define RECORD_STORE_STORE_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/region.h"

struct store;

#define SAMPLE_REASONS_MAX 128u

/* Samples of one instruction with one stall reason, as they come from the vendor's library. */
struct pc_sample {
	uint32_t function; /* functions.h */
	uint32_t offset;
	uint32_t reason; /* as store_samples_add_reason() returned */
	uint64_t samples;
	uint64_t not_issued;
};

/* The index of a stall reason by the vendor's name, added if new; UINT32_MAX: too many. */
uint32_t store_samples_add_reason(const char *name);

/* Part of struct store. */
struct store_samples {
	uint32_t *slots; /* index over TABLE_PCS by content: a row, 0 = free */
	uint32_t slot_count;
	uint32_t slots_used;
	uint32_t free_pc; /* lists of unused rows */
	uint32_t free_run;
	struct region function_rows; /* u32 per process-wide function: its row */
	struct region last_runs;     /* u32 per row of TABLE_KERNELS: the run added to last */
	uint32_t reasons[SAMPLE_REASONS_MAX]; /* string of each stall reason */
	uint64_t code_object_bytes;
	uint32_t code_object_generation; /* as of the last search for missing code objects */
	bool has_missing;                /* a sampled function's code object is not in the file */
	bool is_ready;                   /* the tables have row 0 */
};

void store_samples_fini(struct store *store);
/* Adds samples of the launch `context`, or PROTON_CONTEXT_ROOT: unknown. False: no space. */
bool store_samples_add(struct store *store, uint32_t context, uint32_t epoch,
		       const struct pc_sample *sample);
/* Stores the code objects of sampled functions that became known since the last call. */
void store_samples_find_code_objects(struct store *store);
/* Adds time during which samples of a function were taken to a kernel row. */
void store_samples_run(struct store *store, uint32_t kernel, uint32_t function,
		       uint64_t sampled_ns);
/* Frees the rows of a kernel row, or of an epoch. */
void store_samples_drop_runs(struct store *store, uint32_t kernel);
void store_samples_drop_epoch(struct store *store, uint32_t epoch);

/* Stores a copy of a source file: its beginning, or nothing if `bytes` is NULL. */
void store_samples_source(struct store *store, const char *path, const void *bytes, uint64_t length,
			  uint64_t hash);

#endif
