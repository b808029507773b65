/* Instrumented kernels that are loaded, by the driver's function handle. */
#ifndef BACKEND_INTRA_LOADED_KERNELS_H
#define BACKEND_INTRA_LOADED_KERNELS_H

#include <stdatomic.h>

#include <libproton/proton.h>

#include "backend/intra/closed_loop.h"
#include "intra/decode/decoder.h"

struct kernel {
	struct kernel *next; /* in the same bucket */
	uint64_t function;   /* 0: unloaded; earlier launches are still decoded */
	uint32_t frame;
	char *name;
	struct instrument_layout layout;
	_Atomic uint32_t kept;            /* launches selected for traces, in this run */
	_Atomic uint64_t unsampled;       /* launches without a buffer, in this run */
	_Atomic uint64_t untraced;        /* launches that traces omitted */
	_Atomic uint64_t without_records; /* and kernels that have only sums */
	struct loop *_Atomic loop;        /* NULL: none */
	_Atomic uint32_t variant;         /* in its loop */
	atomic_bool is_offered;           /* the caller was asked for a loop */
	uint64_t turns;                   /* next turn for a launch that goes into traces */
	uint64_t turns_ended;             /* turns that are over: launch_queue.c */
	uint64_t traced;                  /* launches in traces */
	uint64_t traced_events;           /* slices in traces: loss_warnings.c */
	struct decode_totals totals;      /* losses in this run: loss_warnings.c */
	struct {
		uint64_t unsampled, untraced, without_records;
	} omitted;         /* launches */
	uint32_t reported; /* bits of enum loss */
};

/* Adds or replaces a kernel. E_FORMAT for a corrupt layout, E_NOMEM. */
int loaded_kernels_add(uint64_t function, const char *name, const char *layout, bool *is_amd_out,
		       struct proton_error *err);
/* Adds or replaces a plain kernel, the variant without records. E_NOMEM. */
int loaded_kernels_add_plain(uint64_t function, const char *name, struct proton_error *err);
void loaded_kernels_remove(uint64_t function);
/* NULL if unknown. Valid for the life of the process. */
struct kernel *loaded_kernels_find(uint64_t function);
/* Resets the counters for a new run. */
void loaded_kernels_reset(void);
/* Calls `visit` for each. */
void loaded_kernels_visit(void (*visit)(struct kernel *kernel));
void loaded_kernels_forget(void);

#endif
