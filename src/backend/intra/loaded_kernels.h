/* Instrumented kernels that are loaded, by the driver's function handle. */
#pragma once

#include <stdatomic.h>

#include <libproton/proton.h>

#include "backend/intra/closed_loop.h"
#include "intra/decode/decoder.h"

/* Why traces or totals lack a launch. */
enum omission {
	OMITTED_WITHOUT_RECORDS, /* the kernel has only sums */
	OMITTED_UNTRACED,        /* traces have enough */
	OMITTED_UNSAMPLED,       /* it got no buffer */
	OMISSIONS
};

struct kernel {
	struct kernel *next; /* in the same bucket */
	uint64_t function;   /* 0: unloaded; earlier launches are still decoded */
	uint32_t frame;
	char *name;
	struct instrument_layout layout;
	struct loop *_Atomic loop; /* NULL: none */
	_Atomic uint32_t variant;  /* in its loop */
	struct kernel_run {
		_Atomic uint32_t kept;               /* launches selected for traces */
		_Atomic uint64_t omitted[OMISSIONS]; /* launches */
		uint64_t counted;                    /* how many of these are counted as lost */
		atomic_bool is_offered;              /* the caller was asked for a loop */
		uint64_t turns;              /* next turn for a launch that goes into traces */
		uint64_t turns_ended;        /* turns that are over: launch_reader.c */
		uint64_t traced;             /* launches in traces */
		uint64_t traced_events;      /* slices in traces: loss_warnings.c */
		struct decode_totals totals; /* losses: loss_warnings.c */
		uint32_t reported;           /* bits of enum loss */
	} run;                               /* the current one */
};

static inline void loaded_kernels_omit(struct kernel *kernel, enum omission why)
{
	/* relaxed: only the number matters */
	atomic_fetch_add_explicit(&kernel->run.omitted[why], 1, memory_order_relaxed);
}

/*
 * Adds or replaces a kernel. NULL as layout: a plain kernel, the variant without records. E_FORMAT
 * for a corrupt layout, E_NOMEM.
 */
int loaded_kernels_add(uint64_t function, const char *name, const char *layout, bool *is_amd_out,
		       struct proton_error *err);
void loaded_kernels_remove(uint64_t function);
/* NULL if unknown. Valid for the life of the process. */
struct kernel *loaded_kernels_find(uint64_t function);
/* Resets the counters for a new run. */
void loaded_kernels_reset(void);
/* Calls `visit` for each. */
void loaded_kernels_visit(void (*visit)(struct kernel *kernel));
void loaded_kernels_forget(void);
