/*
 * A metric whose value lies in device memory: what the recorder and a backend say to each other.
 * The recorder hands it to the backend, which reads the bytes in stream order, without waiting, and
 * brings them back once for each time the reading was executed.
 */
#ifndef RECORD_THREAD_DEVICE_METRIC_H
#define RECORD_THREAD_DEVICE_METRIC_H

#include <libproton/proton.h>

struct device_metric {
	struct proton_context where; /* when captured: below <captured_at> */
	uint32_t newest_serial;      /* when captured: sessions started later do not know it */
	uint32_t name;               /* record/names/metric_names.h */
	enum proton_metric_type type;
	enum proton_element element;
	uint32_t count; /* elements */
	uint32_t bytes; /* of all elements */
	uint64_t address;
	uint64_t stream;
	void (*release)(void *user); /* the memory is not needed any more; may be NULL */
	void *user;
};

/* The metric is read by work that is being captured, not now: moves it below <captured_at>. */
void device_metric_set_captured(struct device_metric *metric);

/* The value has come; `bytes` holds metric->bytes of it. From any thread. */
void device_metric_add(const struct device_metric *metric, const void *bytes);
/* The same for one execution of captured work, replayed at `launch`. */
void device_metric_add_execution(const struct device_metric *metric, struct proton_context launch,
				 const void *bytes);

/* The one who was given the memory may have it back. Called once. */
void device_metric_release(const struct device_metric *metric);

#endif
