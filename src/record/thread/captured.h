/*
 * CUDA graph capture: work that is captured now and runs any number of times later. Stores where it
 * was captured, and the metrics given for it, which count once per execution.
 *
 * Kernels of a graph replay appear below the replay's context: LAUNCH / <captured_at> / CAPTURE /
 * kernel.
 */
#pragma once

#include <libproton/proton.h>

#include "record/store/execution.h"

/* A number or vector given during capture, perhaps for a scope around the kernel. */
struct captured_metric {
	struct proton_context where; /* below <captured_at> */
	uint32_t name;               /* record/names/frames.h */
	struct proton_metric value;  /* not a STRING; .name is unused; elements are owned */
};

struct captured {
	struct proton_context where; /* below <captured_at>; with the sessions of the capture */
	uint32_t newest_serial;      /* sessions started later do not know this capture */
	bool is_named;               /* `where` ends with the kernel */
	uint32_t metric_count;
	struct captured_metric *metrics; /* owned */
};

/* The thread begins or ends a capture; 0 ends any. The end drops metrics that no kernel took. */
void captured_begin(uint64_t key);
void captured_end(uint64_t key);
bool captured_is_on(void);
/* True if any thread is capturing. */
bool captured_any_open(void);
/* This thread's work became a node of this graph; the capture may have begun unseen. */
void captured_note_graph(const void *graph);
/* The capture of this graph has ended, or the graph is destroyed. */
void captured_forget_graph(const void *graph);
/* The capture of an unknown graph has ended. */
void captured_forget_unseen(void);
/*
 * The same, or another thread has begun a capture in the last 20 ms: it may begin the next one
 * before a call that would end it. For calls that wait for a context: these end the captures that
 * are open when they begin (measured on an H200; one that begins while they wait stays open).
 */
bool captured_may_open(void);
/* The last backend stops watching: the end of open captures will not be seen. */
void captured_clear(void);

/* `where` below the frame <captured_at>. */
struct proton_context captured_path(struct proton_context where);

/* Holds a metric for the next captured kernel. False: record it now, by its type. */
bool captured_hold(struct proton_context where, uint32_t name, const struct proton_metric *metric);

/* The captured work; a kernel takes name and held metrics. False: out of memory. */
bool captured_take(struct captured *out, bool is_kernel);
/* Metrics of captured work are multiplied by this from now on: windows. */
void captured_set_weight(double weight);
/* Number of held metrics. */
size_t captured_held(void);
/* Adds the held metrics to work that was captured before. False if out of memory. */
bool captured_take_rest(struct captured *captured);
void captured_free(struct captured *captured);

/*
 * Records one execution of a captured kernel in a replay launched at `launch`, in every session
 * that was active at both. A session that started after the capture gets the kernel by name below
 * the launch.
 */
void captured_record(struct proton_context launch, const struct captured *captured,
		     const struct execution *execution);
/* For its metrics only. */
void captured_record_metrics(struct proton_context launch, const struct captured *captured);

/*
 * Device metrics: interface between the recorder and a backend. The recorder passes a metric in
 * device memory to the backend, which reads the bytes in stream order, without waiting, and returns
 * them once for each time the read was executed.
 */

struct device_metric {
	struct proton_context where; /* when captured: below <captured_at> */
	uint32_t newest_serial;      /* when captured: later sessions do not know it */
	uint32_t name;               /* record/names/frames.h */
	enum proton_metric_type type;
	enum proton_element element;
	uint32_t count; /* elements */
	uint32_t bytes; /* size of all elements */
	uint64_t address;
	uint64_t stream;
	void (*release)(void *user); /* the memory is no longer needed; may be NULL */
	void *user;
};

/* The metric is read by captured work, not now: moves it below <captured_at>. */
void device_metric_set_captured(struct device_metric *metric);

/* Adds a value that was read. `launch`: where captured work was replayed; else NULL. */
void device_metric_add(const struct device_metric *metric, const struct proton_context *launch,
		       const void *bytes);

/* Returns the memory to the program. Called once. */
void device_metric_release(const struct device_metric *metric);
