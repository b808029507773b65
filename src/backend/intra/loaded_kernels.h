/* The instrumented kernels that have been loaded, by the driver's handle of their function. */
#ifndef BACKEND_INTRA_LOADED_KERNELS_H
#define BACKEND_INTRA_LOADED_KERNELS_H

#include <stdatomic.h>

#include <libproton/proton.h>

#include "intra/decode/decoder.h"

struct kernel {
	struct kernel *next; /* of the same bucket */
	uint64_t function;   /* 0: unloaded; what was launched is still decoded */
	uint32_t frame;
	char *name;
	struct instrument_layout layout;
	_Atomic uint32_t kept;       /* launches whose events went into traces, of this run */
	_Atomic uint64_t unsampled;  /* launches without a buffer, of this run */
	_Atomic uint64_t untraced;   /* launches that traces could have kept and did not */
	uint64_t turns;              /* given to launches that go into traces, ... */
	uint64_t turns_over;         /* ... and those that are over: ordered_commit.c */
	uint64_t traced;             /* launches that they did, ... */
	uint64_t traced_events;      /* ... and slices: loss_warnings.c */
	struct decode_totals totals; /* loss_warnings.c: what went wrong and was not reported yet */
};

/* Adds or replaces one. E_FORMAT for a layout that is damaged, E_NOMEM. */
int loaded_kernels_add(uint64_t function, const char *name, const char *layout, bool *is_amd_out,
		       struct proton_error *err);
void loaded_kernels_remove(uint64_t function);
/* NULL if it is not known. Valid for the life of the process. */
struct kernel *loaded_kernels_find(uint64_t function);
/* A new run begins: none of them has been launched. */
void loaded_kernels_reset(void);
/* Calls `visit` for each. */
void loaded_kernels_visit(void (*visit)(struct kernel *kernel));
void loaded_kernels_forget(void);

#endif
