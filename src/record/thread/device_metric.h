/*
 * Device metrics: interface between the recorder and a backend. The recorder passes a metric in
 * device memory to the backend, which reads the bytes in stream order, without waiting, and returns
 * them once for each time the read was executed.
 */
#ifndef RECORD_THREAD_DEVICE_METRIC_H
#define RECORD_THREAD_DEVICE_METRIC_H

#include <libproton/proton.h>

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

#endif
