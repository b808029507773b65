/*
 * In-memory profile: devices, metrics, and the calling context tree with the data recorded in each
 * node. Made by a loader (model/load.h), by the recorder at finalize, or by hand in tests; read by
 * exporters and the viewer. Not thread-safe while it is being built.
 *
 * All references are indices into arrays. Index 0 of nodes is the root. In values, kernels, configs
 * and histograms it is unused, and means none. A node's parent precedes it.
 */
#pragma once

#include <libproton/proton.h> /* enum proton_metric_type */

#include "base/strings.h"
#include "format/rows.h"
#include "model/ranks.h"
#include "model/samples.h"
#include "model/trace_events.h"
#include "model/waits.h"

struct profile_node {
	uint32_t parent; /* 0 for the root */
	uint32_t first_child;
	uint32_t next_sibling;
	uint32_t last_child;
	uint32_t frame;
	uint32_t first_value;
	uint32_t first_kernel;
};

struct profile_value {
	uint32_t next;
	uint32_t metric; /* index of metrics */
	union {
		int64_t int64;
		double float64;
		uint32_t string;
		uint32_t vector; /* index of words: length, then elements */
	} as;
};

/* More than any machine has; searching all of them is fast. Further ones set is_damaged. */
#define PROFILE_DEVICES_MAX 4096u

#define KERNEL_TIME_UNKNOWN UINT64_MAX /* min_ns and max_ns if the source does not give them */

struct profile_kernel {
	uint32_t next;
	uint32_t device; /* index of devices */
	uint32_t histogram;
	uint32_t first_config;
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns;
	uint64_t max_ns;
};

struct profile {
	struct strings strings;
	/* Rows as in a file, but with strings of this profile: the members of type struct row_X. */
	struct row_frame *frames;
	struct profile_node *nodes;
	struct row_metric *metrics;
	struct profile_value *values;
	struct profile_kernel *kernels;
	struct row_config *configs; /* lists end with 0; `kernel` is not used */
	struct row_histogram *histograms;
	uint64_t *words; /* vectors */
	struct row_device *devices;
	struct row_info *info;
	struct row_counter *counters;
	size_t frame_count, frame_capacity;
	size_t node_count, node_capacity;
	size_t metric_count, metric_capacity;
	size_t value_count, value_capacity;
	size_t kernel_count, kernel_capacity;
	size_t config_count, config_capacity;
	size_t histogram_count, histogram_capacity;
	size_t word_count, word_capacity;
	size_t device_count, device_capacity;
	size_t info_count, info_capacity;
	size_t counter_count, counter_capacity;
	struct hash_table frame_index;  /* by content; id + 1 */
	struct hash_table metric_index; /* by name; id + 1 */
	size_t frames_indexed, metrics_indexed;
	struct list_tail {
		uint32_t node, row;
	} value_tail, kernel_tail; /* the last row added, and its node */
	bool is_unfinished;        /* the process was killed, or is still recording */
	bool is_damaged;           /* not all of the source could be read */
	bool out_of_memory;        /* sticky: an allocation failed */
	uint64_t start_ns;         /* Unix time, 0 = unknown */
	uint64_t end_ns;
	uint64_t file_bytes;             /* size of its files; 0: it was not loaded from any */
	uint64_t more_bytes;             /* its cost beyond what that size allows */
	uint32_t pid;                    /* 0 = unknown */
	struct profile_trace *trace;     /* events; NULL unless it is a trace. Owned */
	struct profile_samples *samples; /* NULL unless PCs were sampled. Owned */
	struct profile_ranks *ranks;     /* NULL unless it is a merged job. Owned */
	struct profile_waits *waits;     /* NULL unless there are collectives. Owned */
};

/* An empty profile with a root. NULL if out of memory. Free it with profile_free(), NULL ok. */
struct profile *profile_new(void);
void profile_free(struct profile *profile);

/*
 * Building. Each function returns an index. If out of memory it sets profile->out_of_memory and
 * returns 0, which is always a valid index; a builder may check once at the end.
 */
uint32_t profile_string(struct profile *profile, const char *text, size_t length);
static inline uint32_t profile_add_text(struct profile *profile, const char *text)
{
	return profile_string(profile, text, strlen(text));
}

uint32_t profile_frame(struct profile *profile, struct row_frame frame); /* found or added */
/* The frame of a scope of this name. */
uint32_t profile_name_frame(struct profile *profile, const char *name);
/* Added without a search, for sources with distinct frames. */
uint32_t profile_frame_append(struct profile *profile, struct row_frame frame);
uint32_t profile_node(struct profile *profile, uint32_t parent,
		      uint32_t frame); /* always new, last child */
/* Found by name and type (then `flags` are ignored) or added. */
uint32_t profile_metric(struct profile *profile, uint32_t name, uint16_t type, uint16_t flags);
/* The metric of that name (a string) and type, or NULL. */
const struct row_metric *profile_metric_find(const struct profile *profile, uint32_t name,
					     uint16_t type);
uint32_t profile_device(struct profile *profile, uint32_t type, uint32_t id); /* found or added */
/* The device with exactly these properties; found or added. */
uint32_t profile_device_like(struct profile *profile, struct row_device device);
/*
 * A new value or kernel at the end of `node`'s list, zeroed except for the given fields. Never NULL
 * (a dummy if out of memory). The pointer is valid until the next one is added. Adding is fast
 * while nodes are filled one after another.
 */
struct profile_value *profile_value(struct profile *profile, uint32_t node, uint32_t metric);
struct profile_kernel *profile_kernel(struct profile *profile, uint32_t node, uint32_t device);
/*
 * Adds executions to the list of configurations that begins with `first` (0: none yet), a
 * kernel's first_config. Returns the first of the list. After CONFIGS_PER_KERNEL entries, or with
 * CONFIG_OTHER in `added->flags`, they are added to the entry for all others, the last of the list.
 */
uint32_t profile_config(struct profile *profile, uint32_t first, const struct row_config *added);
uint32_t profile_histogram(struct profile *profile);
/* The rows at index 0 of arrays that use 0 for none. */
void profile_first_rows(struct profile *profile);

/*
 * Adds `from`, a value of the same type, to value `index`, or stores it if `is_new`. A property is
 * replaced if `from` is later. `vector` has the words of a vector: its length, then its elements.
 */
void profile_value_add(struct profile *profile, uint32_t index, const struct profile_value *from,
		       const uint64_t *vector, bool is_new, bool is_later);
/* Adds executions to kernel `index`; `buckets`: of `from`, or NULL. */
void profile_kernel_add(struct profile *profile, uint32_t index, const struct profile_kernel *from,
			const uint32_t *buckets);
uint32_t profile_vector(struct profile *profile, const uint64_t *elements, size_t count);
void profile_info(struct profile *profile, const char *key, const char *value);
/* The value of an information row, or "". */
const char *profile_info_text(const struct profile *profile, const char *key);
/* Adds to the counter of that name, creating it if necessary. */
void profile_counter(struct profile *profile, const char *name, bool is_loss, uint64_t value);

/* Text of a string id; borrowed, valid for the life of the profile. */
static inline const char *profile_text(const struct profile *profile, uint32_t string)
{
	return string_text(&profile->strings, string);
}

static inline bool profile_is_number(uint16_t type)
{
	return type == PROTON_METRIC_INT64 || type == PROTON_METRIC_DOUBLE;
}

/* True if recorded data is missing in the profile, or data that would have been recorded. */
static inline bool profile_is_partial(const struct profile *profile)
{
	return profile->is_unfinished || profile->is_damaged;
}

/*
 * A frame as displayed: the name, or "file:line@function". Written to `text` (NUL-terminated, cut
 * at `capacity`); returns the full length.
 */
size_t profile_frame_text(const struct profile *profile, uint32_t frame, char *text,
			  size_t capacity);

/* True for a scope of that name: a frame that is neither a kernel nor a line. */
bool profile_is_scope(const struct profile *profile, uint32_t node, const char *name);

/* Bytes that a loaded profile takes in any view and export: an upper limit. */
uint64_t profile_cost(const struct profile *profile);
