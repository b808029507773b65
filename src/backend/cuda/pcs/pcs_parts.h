/* Internal interface of PC sampling. */
#pragma once

#include <pthread.h>

#include "backend/cuda/cuda_mode.h"
#include "backend/cuda/cupti_api.h"
#include "record/record.h"
#include "record/sets/record_sessions.h"

#define PCS_CONTEXTS_MAX 32u
/* Between two decodings of CUPTI's thread; a flush waits for the next one. */
#define PCS_WORKER_SLEEP_MS 10u
/* In CUPTI's buffer. The kernels of a training step have 10,000 or more. */
#define PCS_CONFIGURED_PCS 120000u

/* A context that is enabled for sampling. */
struct pcs_context {
	void *context; /* NULL: this place is free */
	uint32_t id;   /* CUPTI's, as in kernel records */
	uint32_t device;
	uint32_t period; /* as CUPTI reports it */
	int claim;       /* descriptor of its GPU's claim; 0: none */
	bool is_serialized;
	bool is_started;
	bool is_kept; /* enabled, but not started: the end of the session disables it */
	bool is_full; /* a buffer was; CUPTI delivers nothing until pcs_context_raise_period() */
	int64_t unmatched;           /* samples in totals, but in no read yet */
	struct pcs_data *configured; /* CUPTI's own buffer; its rest arrives there at the end */
};

/* Numbers since the start, for warnings and the profile's info. */
struct pcs_statistics {
	uint64_t samples;
	uint64_t profiler;
	uint64_t unknown;
	uint64_t full;       /* times that a buffer was full */
	uint64_t full_added; /* those that the sessions have */
	uint64_t drain_ns;
};

extern pthread_mutex_t pcs_lock; /* guards the contexts, and CUPTI's calls for them */
extern struct pcs_context pcs_contexts[PCS_CONTEXTS_MAX];
extern struct pcs_mode pcs_mode;
extern struct pcs_statistics pcs_statistics;

/*
 * Closes the gate for CUPTI's calls, as call_gate_close(). Calls that began before they are counted
 * have time to end. pcs_lock is held, as for the following.
 */
bool pcs_state_close_gate(uint64_t limit_ns);
/*
 * The same while no stream is being captured: cuptiPCSamplingDisable() waits for the context, which
 * ends its captures in any mode (measured with 13.0; Enable, Start, Stop and GetData do not).
 */
bool pcs_state_close_gate_between_captures(uint64_t limit_ns);
/* Launches and loads are counted from now on. */
void pcs_state_count_calls(void);

/* pcs_claim.c: false if another process of this machine samples the GPU. */
bool pcs_claim_take(struct pcs_context *context);
/* Also in the child of a fork, which has a copy. */
void pcs_claim_release(struct pcs_context *context);

/* pcs_context.c; pcs_lock is held, and except for reading, the gate is closed (call_gate.h). */
/* Enables and begins. On failure CUPTI does not have the context, unless it is kept. */
int pcs_context_enable(struct pcs_context *context, struct proton_error *err);
int pcs_context_begin(struct pcs_context *context);
void pcs_context_end(struct pcs_context *context);
/* Reads all samples, and releases the context, unless CUPTI refuses. */
void pcs_context_finish(struct pcs_context *context);
/* The context no longer exists for CUPTI. */
void pcs_context_forget(struct pcs_context *context);
/* Reads all samples that CUPTI has decoded; returns the number of PCs that have some. */
size_t pcs_context_read(struct pcs_context *context);
/* Enables the context again with twice the period. */
void pcs_context_raise_period(struct pcs_context *context);

/*
 * pcs_windows.c: times during which PCs of a context were sampled: always, or in windows. Samples
 * are divided between contexts of the program in proportion to kernel time in these, and that gives
 * the number of samples to expect.
 *
 * `context` is CUPTI's id, as in kernel records. Times of clock_monotonic_ns().
 */
void pcs_windows_begin(const struct pcs_context *context, uint64_t now_ns);
void pcs_windows_end(uint32_t context, uint64_t now_ns);
/* Forgets all windows that have ended. */
void pcs_windows_clear(void);

/*
 * Sets the part of a kernel's time that is in windows of its context, and expects its samples: of
 * at most one processor per block, because an idle one gives none.
 */
void pcs_windows_run(const struct cupti_kernel *kernel, struct execution *execution);
/* Samples expected so far, at the highest clock rate of the device. */
uint64_t pcs_windows_expected(void);

/* pcs_drain.c. */
void pcs_drain_start(void);
void pcs_drain_stop(void);

/* pcs_take.c: adds the content of a buffer; pcs_lock is held. */
void pcs_take(struct pcs_context *context, struct pcs_data *data);
/* Prepares for `count` stall reasons of CUPTI; `names` by index. False: out of memory. */
bool pcs_take_reasons(const uint32_t *indexes, char *const *names, size_t count);

/* pcs_modules.c. */
void pcs_modules_start(void);
void pcs_modules_stop(void);
/* Functions of sampling_hooks.h. */
void pcs_modules_begin_launch(uint32_t call, const struct cupti_callback_data *data,
			      struct proton_context where, bool is_kernel);
void pcs_modules_end_launch(const struct cupti_callback_data *data);
void pcs_modules_on_call(uint32_t call, const struct cupti_callback_data *data);
void pcs_modules_on_query(const struct cupti_callback_data *data);
void pcs_modules_on_event(uint32_t event, const struct cupti_module_data *module);
uint64_t pcs_modules_captured_crc(void);
void pcs_modules_attribute(const struct cupti_kernel *kernel, uint64_t crc,
			   struct execution *execution);
/* A function without a cubin was sampled: asks CUPTI for it at the next launches. */
void pcs_modules_want(uint64_t crc, uint32_t function);
/* Looks for cubins that CUPTI has not given in Triton's cache. */
void pcs_modules_search(void);
/* Asks for all modules until there are samples: the context existed before the session. */
void pcs_modules_ask(void);
/*
 * Stops asking when samples have arrived and no sampled function lacks a cubin, or after some time
 * or number of launches.
 * pcs_lock is held.
 */
void pcs_modules_tick(void);
/* Launches and nodes of graphs for which CUPTI was asked for code, in this session. */
uint64_t pcs_modules_events(void);
uint32_t pcs_modules_last_sessions(void);
/* The attribution of a launch in serialized mode; false: not known. */
bool pcs_modules_find_launch(uint32_t correlation, struct proton_context *where, bool *is_named);
