/* Store of one session: its file's rows, and maps to them. Calls need the session's lock. */
#pragma once

#include <libproton/proton.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/region.h"
#include "format/profile_file.h"
#include "model/profile.h"
#include "record/names/frames.h"
#include "record/store/devices.h"
#include "record/store/execution.h"

/*
 * PC samples in a store: rows per instruction and stall reason, the time of functions in kernel
 * rows, and the code objects and source files that they refer to. As in store.h, the session's lock
 * is held around every call.
 */

struct store;

#define SAMPLE_REASONS_MAX 128u

/* Samples of one instruction with one stall reason, as they come from the vendor's library. */
struct pc_sample {
	uint32_t function; /* devices.h */
	uint32_t offset;
	uint32_t reason; /* as store_samples_add_reason() returned */
	uint64_t samples;
	uint64_t not_issued;
};

/* The index of a stall reason by the vendor's name, added if new; UINT32_MAX: too many. */
uint32_t store_samples_add_reason(const char *name);

/* Part of struct store. */
struct store_samples {
	struct hash_table pcs;       /* rows of TABLE_PCS by content */
	struct region function_rows; /* u32 per process-wide function: its row */
	struct region last_runs;     /* u32 per row of TABLE_KERNELS: the run added to last */
	uint32_t reasons[SAMPLE_REASONS_MAX]; /* string of each stall reason */
	uint64_t code_object_bytes;
	uint32_t code_object_generation; /* as of the last search for missing code objects */
	bool has_missing;                /* a sampled function's code object is not in the file */
};

/* Adds samples of the launch `context`, or PROTON_CONTEXT_ROOT: unknown. False: no space. */
bool store_samples_add(struct store *store, uint32_t context, uint32_t epoch,
		       const struct pc_sample *sample);
/* Stores the code objects of sampled functions that became known since the last call. */
void store_samples_find_code_objects(struct store *store);
/* Adds time during which samples of a function were taken to a kernel row. */
void store_samples_run(struct store *store, uint32_t kernel, uint32_t function,
		       uint64_t sampled_ns);
void store_samples_drop_epoch(struct store *store, uint32_t epoch);

/* Stores a copy of a source file: its beginning, or nothing if `bytes` is NULL. */
void store_samples_source(struct store *store, const char *path, const void *bytes, uint64_t length,
			  uint64_t hash);

/* Estimates from windows: each node's gains, by group of windows. With the session's lock. */

/* A window in which kernels are recorded. */
struct record_window {
	uint64_t open_ns;  /* monotonic */
	uint64_t close_ns; /* 0: it is open */
	uint32_t group;    /* of model/estimates.h */
	double weight;     /* the time that it stands for, in units of its length */
	double slowness;   /* the rate of the program's steps over that in windows */
};

/* The sums in a row of kernels when it was counted last. */
struct seen_kernel {
	uint64_t total_ns;
	uint64_t count;
};

/* Part of struct store. */
struct store_windows {
	struct region seen;      /* struct seen_kernel, per row of TABLE_KERNELS */
	struct record_window at; /* the open window; open_ns 0: there is none */
	uint64_t active_ns;      /* time during which the session was active */
	uint64_t since_ns;       /* since when it is active; 0: it is not */
	uint64_t written_ns;     /* part of it that is in the root's vector */
	bool has_any;            /* there was a window */
};

/* A window was opened, or is closed: then all of its records have arrived. */
void store_windows_set(struct store *store, const struct record_window *window);
/* The session has ended. */
void store_windows_finish(struct store *store, uint64_t now_ns);

/* The row of a kernel; NULL: it was never counted. */
static inline struct seen_kernel *store_windows_seen(const struct store_windows *windows,
						     uint32_t kernel)
{
	struct seen_kernel *rows = windows->seen.base;

	return region_holds(&windows->seen, (kernel + 1ull) * sizeof(*rows)) ? &rows[kernel] : NULL;
}

/* A row of kernels is new. */
static inline void store_windows_forget_kernel(const struct store_windows *windows, uint32_t kernel)
{
	struct seen_kernel *seen = store_windows_seen(windows, kernel);

	if (seen)
		*seen = (struct seen_kernel){0};
}

static inline uint64_t store_windows_active(const struct store_windows *windows, uint64_t now_ns)
{
	return windows->active_ns +
	       (windows->since_ns && now_ns > windows->since_ns ? now_ns - windows->since_ns : 0);
}

static inline void store_windows_set_active(struct store_windows *windows, bool is_active,
					    uint64_t now_ns)
{
	windows->active_ns = store_windows_active(windows, now_ns);
	windows->since_ns = is_active ? now_ns : 0;
}

/* Durations of collectives by occurrence, for the waiting of ranks. Under the session's lock. */

struct collective_series {
	uint32_t first_row; /* of TABLE_DURATIONS; 0: none */
	uint32_t last_row;
	uint32_t rows;
	uint32_t stride;
	uint32_t count; /* occurrences so far, recorded or not */
	uint32_t epoch; /* the last one's */
	uint32_t node;
	uint32_t next;  /* series + 1 of the node with another communicator; 0: none */
	uint32_t group; /* string of the file: the communicator; 0: not known */
	uint64_t communicator;
};

struct collectives {
	struct region series_of_node; /* u32 per node: its newest series + 1 */
	struct region kind_of_frame;  /* u8 per frame: 0 not known, 1 no collective, 2 one */
	struct collective_series *series;
	size_t count;
	uint32_t rows; /* in use */
};

/* Adds an occurrence if the node is a collective's kernel; `scopes` tells the communicator. */
void store_collectives_kernel(struct store *store, uint32_t node, uint32_t scopes, uint32_t epoch,
			      uint64_t duration_ns);
/* Adds one that was timed on the host, in a node of any name. */
void store_collectives_add(struct store *store, uint32_t node, uint32_t epoch, uint32_t flags,
			   uint64_t duration_ns);
/* Any thread: true if the node has occurrences, which need the lock. */
bool store_collectives_has(const struct store *store, uint32_t node);
/* Drops durations that ended in this epoch. */
void store_collectives_drop_epoch(struct store *store, uint32_t epoch);
/* True if a kernel of that name is a collective: by the table here, or by PROTON_COLLECTIVES. */
bool store_collectives_match(const char *name);

#define LANE_NONE UINT32_MAX
#define STORE_LANE_CACHE 64u
#define STORE_LAUNCH_CACHE 256u
#define STORE_VECTOR_LENGTHS 16u
#define STORE_STRIPES 64u /* groups of threads that share counters and cache lines of rows */

/* Rows of one launch of an instrumented kernel with estimated times. */
struct intra_span {
	uint32_t first; /* rows of TABLE_EVENTS */
	uint32_t count;
	uint32_t link; /* event of the launching call */
	uint32_t node; /* the kernel's node */
	uint64_t start_ns;
	uint64_t end_ns;
	bool is_aligned;
};

/* Vectors of one length from cleared phases, linked by their first elements. */
struct free_vectors {
	uint64_t length;
	uint64_t first;
};

/* The lists of a node. */
enum store_list {
	LIST_VALUES,
	LIST_KERNELS,
	LIST_COUNT,
};

/* Rows of a list for the threads of one stripe. */
struct free_rows {
	uint32_t first; /* list of rows from cleared phases, see store_lists.c */
	uint32_t next;  /* rows on separate cache lines, not used yet: up to, not including */
	uint32_t end;
};

/* Rows of events or samples that a thread has reserved and not used yet. */
struct reserved_rows {
	uint32_t next;
	uint32_t end;
	uint32_t count; /* reserved last */
};

/* Ranges of rows; `left`: see store_event_rows.c. */
struct row_ranges {
	struct row_range {
		uint32_t first;
		uint32_t count;
		uint32_t left;
	} * items;
	size_t count;
};

struct store {
	/* Fields that threads read without the lock, up to `trace_serial`. */
	struct profile_file file;
	struct region node_of_context; /* u32 per process-wide context; 0 = no node yet */
	struct region frame_of_frame;
	struct region string_of_string;
	struct region config_of_kernel;   /* u32 per row of TABLE_KERNELS: its last configuration */
	struct region metric_of_name;     /* u32 per process-wide metric name: row + 1 */
	uint32_t device_rows[DEVICE_MAX]; /* row + 1 per process-wide device */
	uint32_t stripes;      /* further rows of counters, for threads that share them; 0: none */
	uint32_t trace_serial; /* serial of the session; 0: not a trace */
	/* Fields that change under the lock. */
	_Alignas(CACHE_LINE_BYTES) bool is_shared; /* several threads add: use atomic operations */
	bool has_mixed_types;                      /* a metric name has rows of several types */
	uint32_t stripe;                           /* the thread that has the lock */
	struct free_rows free_rows[LIST_COUNT][STORE_STRIPES];
	struct region places[LIST_COUNT]; /* per row of values and kernels, see store_lists.c */
	struct region epoch_rows;
	uint32_t unused[TABLE_COUNT]; /* lists of rows from cleared phases */
	struct free_vectors free_vectors[STORE_VECTOR_LENGTHS];
	uint64_t empty_vector;     /* word + 1 of the shared empty vector; 0: not made yet */
	uint32_t epoch;            /* current epoch: a row of TABLE_EPOCHS */
	uint32_t first_kept_epoch; /* earlier epochs have been cleared */
	uint64_t
		counted[LIMITS_COUNTS]; /* parts of name_limits_counted() in counters, or earlier */
	bool is_truncated;              /* the file; it has been counted */
	bool is_full;                   /* the warning has been printed */
	struct store_samples samples;
	struct store_windows windows;
	struct collectives collectives;
	/* For traces only. */
	uint32_t thread_count; /* number of lanes of threads */
	uint32_t lanes[STORE_LANE_CACHE];
	uint32_t launches[STORE_LAUNCH_CACHE];
	struct reserved_rows own_events; /* for the thread that has the session's lock */
	struct reserved_rows own_samples;
	struct row_ranges free_events; /* sorted */
	struct row_ranges free_samples;
	struct row_ranges sealed_events;
	struct row_ranges sample_chunks; /* sorted */
	struct intra_span *spans;        /* waiting for the record of their kernel */
	size_t span_count;
};

/* `path` NULL: in private memory. `is_own`: in a file named for this process and `path`. */
int store_init(struct store *store, const char *path, bool is_own, struct proton_error *err);
void store_fini(struct store *store, bool remove_file);

/* Notes that `context` was entered in the current epoch; makes its node. */
void store_enter(struct store *store, uint32_t context);
/* Adds an execution to `context`, of `epoch`. `scopes`: its context of scopes alone. */
void store_kernel(struct store *store, uint32_t context, uint32_t scopes, uint32_t epoch,
		  const struct execution *execution);
/* Adds a metric with the process-wide name `name`. */
int store_metric(struct store *store, uint32_t context, uint32_t epoch, uint32_t name,
		 const struct proton_metric *metric, struct proton_error *err);
/* Gives event `event` of this store a metric that store_metric() has accepted. */
void store_metric_add_sample(struct store *store, uint32_t event, uint32_t name,
			     const struct proton_metric *metric);
/*
 * The same for existing rows, without the session's lock, see record/thread/adding.h. False if
 * there are none, or if more than a number has to be changed. `stripe` is any number that belongs
 * to the thread.
 */
bool store_add_kernel(const struct store *store, uint32_t context, uint32_t epoch,
		      const struct execution *execution, bool is_shared, uint32_t stripe);
/* The row + 1 of the metric, 0 if it was not added. */
uint32_t store_add_metric(const struct store *store, uint32_t context, uint32_t epoch,
			  uint32_t name, const struct proton_metric *metric, bool is_shared,
			  uint32_t stripe);
/* Adds counters, which threads then need not share. */
void store_counters_share(struct store *store);
/* Sets the info `key`, replacing an earlier value. */
void store_info(struct store *store, const char *key, const char *value);
void store_counters_add(struct store *store, enum counter counter, uint64_t more);
/* Adds what was counted for all sessions together, see frames.h. */
void store_counters_add_folded(struct store *store);
uint64_t store_counters_get(const struct store *store, enum counter counter);
/* True if nothing was recorded: no counter, with or without losses, and no context. */
bool store_counters_are_zero(const struct store *store, bool with_losses);

struct counter_kind {
	const char *name;
	bool is_loss;
};

extern const struct counter_kind store_counter_kinds[COUNTER_COUNT];

/* Makes the tables of a trace. Kernels become events once trace_serial is set. */
int store_event_init(struct store *store, struct proton_error *err);
/*
 * The next of the reserved rows of events or samples, or of new ones; 0 if there is no space. A
 * thread fills them without a lock while the store lives. A row counts once its `kind` is stored,
 * or an event links to it. All events have to end.
 */
uint32_t store_event_rows_next(struct store *store, struct reserved_rows *rows,
			       enum table_id table);
/* Takes back the rows that the thread has not used, and has it use no more. */
void store_event_rows_give_back(struct store *store, struct reserved_rows *rows,
				enum table_id table);
/* Gives an event row `at` of samples; only the value's metric and content are used. */
void store_event_link_sample(const struct store *store, uint32_t event, uint32_t at,
			     const struct row_value *value);
/* The offset from monotonic time to Unix time: constant for the life of the process. */
uint64_t store_event_unix_offset_ns(void);
/* A new lane for a thread; LANE_NONE if there is no space. */
uint32_t store_event_thread_lane(struct store *store, uint64_t id, const char *name);
/* The node of `context`; 0 if it has none yet (or is the root). From any thread, without a lock. */
uint32_t store_find_node(const struct store *store, uint32_t context);
/* Makes the node in `epoch`; 0: no space, the root, or a cleared epoch, which is counted. */
uint32_t store_make_node(struct store *store, uint32_t context, uint32_t epoch);

/* The row of `device` in this file; row + 1 is remembered. UINT32_MAX if there is no space. */
uint32_t store_device(struct store *store, uint32_t device);
/* Adds a launch's events, at contexts of call paths or of scopes. False: out of memory. */
bool store_event_add_intra(struct store *store, const struct intra_launch *launch, uint32_t epoch,
			   bool wants_source);
/* Moves launches of instrumented kernels to recorded times: all records so far have arrived. */
void store_event_align(struct store *store);

/* Rows never move. */
static inline struct row_event *store_event_at(const struct store *store, uint32_t row)
{
	return (struct row_event *)profile_file_rows(&store->file, TABLE_EVENTS) + row;
}

/* Phases. Epochs are rows; a phase number may have several epochs. */
void store_phase_begin(struct store *store, uint32_t phase);
/* Ends the current phase for good. */
void store_phase_finish(struct store *store);
/* The number of the current phase; whether a phase exists and was not cleared. */
uint32_t store_phase(const struct store *store);
bool store_phase_is_kept(const struct store *store, uint32_t phase);
/* All earlier phases have been recorded completely. */
void store_phase_complete_earlier(struct store *store);
bool store_phase_is_complete(const struct store *store, uint32_t phase);
/* The tick (frames.h) at which the first kept phase began. */
uint32_t store_phase_first_kept_tick(const struct store *store);
/* Stores a frame's new text. `has_moved`: it has more space. False: none in the file. */
bool store_rename(struct store *store, uint32_t frame, bool has_moved);
/*
 * Closes or reopens a phase. A closed phase takes no more rows: later data is counted as lost.
 * False if it is already in the wanted state. No thread may be adding to a row (adding_pause()).
 */
bool store_phase_close(struct store *store, uint32_t phase, bool is_closed);
/* Clears a phase, or all up to it. No thread may be adding to a row (adding_pause()). */
void store_phase_clear(struct store *store, uint32_t phase, bool up_to);

/* The profile of one phase, or PHASE_ALL; the caller frees it. */
int store_profile(const struct store *store, uint32_t phase, struct profile **out,
		  struct proton_error *err);
uint64_t store_context_count(const struct store *store);
