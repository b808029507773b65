/*
 * Work that is captured into a GPU graph now and runs later, any number of times: where it was
 * captured, and the metrics given for it, which count once for each execution.
 *
 * A replay's kernels appear below the replay's context: LAUNCH / <captured_at> / CAPTURE / kernel.
 */
#ifndef RECORD_THREAD_CAPTURED_H
#define RECORD_THREAD_CAPTURED_H

#include <stdbool.h>

#include <libproton/proton.h>

#include "record/store/execution.h"

/*
 * A number or a vector given while capturing; its own context, for it may belong to a scope around
 * the kernel.
 */
struct captured_metric {
	uint32_t shadow;
	uint32_t source;
	uint32_t name;              /* record/names/metric_names.h */
	struct proton_metric value; /* no STRING; .name is not used; elements are owned */
};

struct captured {
	struct proton_context where; /* below <captured_at>; sessions: those active then */
	uint32_t newest_serial;      /* sessions started later know nothing of this capture */
	bool is_named;               /* `where` ends with the kernel */
	uint32_t metric_count;
	struct captured_metric *metrics; /* owned */
};

/* The calling thread begins or ends capturing. Ending drops metrics that nobody has taken. */
void captured_set(bool is_capturing);
bool captured_is_on(void);
/* Some thread captures. */
bool captured_any_open(void);
/* No backend watches any more: captures that are open now will not be seen to end. */
void captured_clear(void);

/* `where` below the frame that says that what follows was captured. */
struct proton_context captured_path(struct proton_context where);

/* Keeps a metric for the next kernel captured on this thread; false if it is not of a kind that can
 * be kept, and is to be recorded at once. */
bool captured_hold(struct proton_context where, uint32_t name, const struct proton_metric *metric);

/*
 * What is being captured on this thread now. A kernel takes its name and the metrics held; a memory
 * operation leaves both for the kernel that follows. False when memory is out.
 */
bool captured_take(struct captured *out, bool is_kernel);
/*
 * Metrics held that no kernel followed: how many, and adds them to what was captured before. False
 * when memory is out.
 */
size_t captured_held(void);
bool captured_take_rest(struct captured *captured);
void captured_free(struct captured *captured);

/*
 * One execution of a captured kernel in a replay launched at `launch`, in every session that was
 * active both then and when it was captured. A session that started after the capture gets the
 * kernel by its name below the launch.
 */
void captured_record(struct proton_context launch, const struct captured *captured,
		     const struct execution *execution);
/* The same for its metrics alone. */
void captured_record_metrics(struct proton_context launch, const struct captured *captured);

#endif
