/*
 * libproton: record what ran on a GPU (or on the CPU in a GPU language's interpreter), per
 * calling context.
 *
 * Sessions   A session is one profile being recorded into `<name>.proton`, a memory-mapped file
 *            that survives a crash. Several sessions may live at once. Finalizing a session
 *            writes the output asked for (default `<name>.hatchet`) and removes the working file.
 * Contexts   Scopes form a stack per thread; a kernel launch is attributed to the stack of the
 *            thread that launches it. A thread that has no scope of its own is attributed to
 *            the scopes of the thread that started the first live session, as they stand then.
 * Metrics    Numbers, vectors and strings attached to a context. They add up when recorded again
 *            unless they are properties.
 *
 * Every function is thread-safe and may be called when no session is live: recording functions
 * then do nothing and succeed. After fork() the child records nothing until it starts a session
 * of its own. Nothing here exits, aborts or prints to standard output (unless the session's name
 * asks for it). Strings are UTF-8 and copied; no pointer passed in is kept.
 */
#ifndef LIBPROTON_PROTON_H
#define LIBPROTON_PROTON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libproton/status.h>

#define PROTON_VERSION_MAJOR 0
#define PROTON_VERSION_MINOR 1
#define PROTON_VERSION_PATCH 0
#define PROTON_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is loaded, "major.minor.patch"; compare with PROTON_VERSION. */
PROTON_API const char *proton_version(void);

/* ------------------------------------------------------------------ sessions */

#define PROTON_ALL_SESSIONS (-1)

enum proton_session_flag {
	PROTON_SESSION_KEEP_WORKING_FILE = 1u << 0, /* leave `<name>.proton` beside the output */
	PROTON_SESSION_QUIET = 1u << 1,             /* no notes on standard error */
	PROTON_SESSION_MEMORY = 1u << 2,            /* memory copies and sets of GPUs too */
	PROTON_SESSION_NO_CLOBBER = 1u << 3,        /* refuse a name with existing output */
};

/* Options of proton_start(). Set `size` to sizeof(struct proton_session_options), the rest to 0. */
struct proton_session_options {
	size_t size;
	const char *name; /* output path without suffix (one of an output is dropped), "proton" if
			      * NULL; "" or "-": stdout */
	const char *context; /* "shadow" (scopes, default) or "python" (needs the Python package) */
	const char *data;    /* "tree" (default) or "trace": events too */
	const char *backend; /* one of proton_backend_name(); NULL: the first that is usable */
	/*
	 * The backend's, "name[:key=value]..."; NULL or "": its default. With the mode
	 * "periodic_flushing[:format=NAME]" proton_phase_advance() writes the phases before the
	 * new one and clears them.
	 */
	const char *mode;
	const char *format; /* of the output unless proton_finalize() names one; NULL: "hatchet" */
	uint32_t flags;     /* PROTON_SESSION_* */
	uint32_t reserved;  /* 0 */
};

/*
 * Start recording. `options` may be NULL. Starting a session whose name is that of a live session
 * activates that session again and returns its id (the other options are not looked at).
 * Ids count up from 0 and are never reused. On failure nothing is left active or on disk.
 * An earlier profile of that name is replaced when the session is finalized, unless nothing was
 * recorded or PROTON_SESSION_NO_CLOBBER or the variable PROTON_NO_CLOBBER=1 is set. A file that is
 * not a profile is never replaced.
 * Errors: E_INVALID (unknown context, data, backend or mode; a name that cannot be an output, or
 * that has a file which is not to be replaced), E_IO and E_NOSPACE (working file),
 * E_NOMEM, E_UNSUPPORTED, and the backend's own E_NOLIB, E_BUSY, E_PERMISSION, E_VERSION.
 */
PROTON_API int proton_start(const struct proton_session_options *options, int *session_out,
			    struct proton_error *err);

/*
 * Resume or pause one session, or PROTON_ALL_SESSIONS. Doing it twice is harmless. Scopes entered
 * while a session is paused still count as context later. `flush` waits for work already
 * launched, so that everything recorded so far can be read. E_RANGE: no such session.
 */
PROTON_API int proton_activate(int session, struct proton_error *err);
PROTON_API int proton_deactivate(int session, bool flush, struct proton_error *err);

/*
 * End one session or PROTON_ALL_SESSIONS and write its output: `format` is NULL or "" for what
 * proton_start() was given, "hatchet", "hatchet_msgpack", "proton" (keep the working file,
 * finished), "none", and of traces "chrome_trace" or "perfetto". An unknown format, or one that a
 * session's data does not have, is refused with E_INVALID before anything is ended. When
 * the output cannot be written the working file stays and the error names both paths. Ending a
 * session that does not exist is no error. May be called inside open scopes. Returns when sessions
 * that other threads are ending at the same time are written, too.
 */
PROTON_API int proton_finalize(int session, const char *format, struct proton_error *err);

/* True while at least one session is live (started and not finalized). Costs one load. */
PROTON_API bool proton_is_profiling(void);

/* The `index`-th backend's name, NULL past the last one. Pointers are static. */
PROTON_API const char *proton_backend_name(size_t index);
/*
 * The backend of a session that names none, here and now: PROTON_BACKEND, else the first that is
 * usable. NULL: PROTON_BACKEND is unknown.
 */
PROTON_API const char *proton_backend_default(void);
/* The backend of a live session, a static name; NULL when there is no such session. */
PROTON_API const char *proton_session_backend(int session);

/*
 * Finalize every session when SIGTERM, SIGHUP or SIGINT arrives, say so on standard error unless
 * they are all quiet, then let the signal take its previous course. Installs handlers only where
 * the disposition is still the default. Never called by the library itself: the program has to ask.
 */
PROTON_API int proton_finalize_on_signals(struct proton_error *err);
/*
 * For a tool that owns the session: when one of these signals has arrived, `end` is called first,
 * on the thread that finalizes, while the program continues. It may wait and end the session
 * itself. NULL: no function.
 */
typedef void (*proton_signal_fn)(void);
PROTON_API void proton_at_signal(proton_signal_fn end);

/*
 * Command-line rule: from now on proton_start() in this process only returns the session already
 * live and proton_finalize() does nothing, because the tool that launched the program owns the
 * session; proton_finalize_owned() is how that tool ends it.
 */
PROTON_API void proton_own_sessions(void);
/*
 * For a tool that the driver tells of its initialisation, as NVIDIA's does the library that
 * CUDA_INJECTION64_PATH names. After the first, backends leave the vendor's profiling library alone
 * until the second says that it is time: the process may fork before it uses the GPU, and that
 * library does not work in children of processes which have used it. The first comes before
 * proton_start(), the second from inside the initialisation (InitializeInjection()); its error is
 * that of a backend which cannot begin, and is also what proton_finalize_owned() then says.
 */
PROTON_API void proton_await_driver(void);
PROTON_API int proton_driver_initialises(struct proton_error *err);
/*
 * For a tool that is loaded into processes most of which never use this library (shells, env,
 * compilers): proton_await_use() names a function that starts the session, and proton_use() calls
 * it, once; so does proton_start(). A runtime that has scopes without a start calls proton_use()
 * when it is loaded, as the Python package does.
 */
PROTON_API void proton_await_use(void (*begin)(void));
PROTON_API void proton_use(void);
/*
 * E_IO also when kernels were launched and not one record of them came, and the error of
 * proton_driver_initialises() if it had one; the output is written. When no session is live, the
 * error of the call that ended them: several exit functions may call this.
 */
PROTON_API int proton_finalize_owned(const char *format, struct proton_error *err);
PROTON_API bool proton_sessions_are_owned(void);

/* ------------------------------------------------------------------ frames and contexts */

/*
 * A frame names one level of a calling context. Ids are process-wide, small and, for those that
 * these functions return, never reused;
 * UINT32_MAX when memory is out, which every function below takes as "no further level". A process
 * that makes too many (PROTON_MAX_NAMES) gets PROTON_FRAME_OTHER, the frame of "(other)".
 */
PROTON_API uint32_t proton_frame(const char *name, size_t length);
#define PROTON_FRAME_OTHER 1u
/*
 * The frame of a scope or state that the calling thread enters next: as proton_frame(), but
 * PROTON_FRAME_OTHER for a new name where the thread's innermost scope has as many children as it
 * may have (PROTON_MAX_CHILDREN). For names without end, such as those of requests: they then make
 * no frames without end. proton_scope_enter() does the same.
 */
PROTON_API uint32_t proton_scope_frame(const char *name, size_t length);
/* A source frame, shown as "file:line@function". */
PROTON_API uint32_t proton_frame_source(const char *file, size_t file_length, const char *function,
					size_t function_length, uint32_t line);

#define PROTON_CONTEXT_ROOT 0u

/*
 * The context reached from `parent` by `frame`; found or made, that of "(other)" where `parent` has
 * as many children as it may have. PROTON_CONTEXT_ROOT on E_NOMEM.
 */
PROTON_API uint32_t proton_context_child(uint32_t parent, uint32_t frame);

/*
 * Where a measurement belongs: the calling thread's contexts and the set of sessions (with their
 * phases) that were active. Small, to be kept with the work launched; valid for the life of
 * the process, and simply without effect once its sessions are gone.
 */
struct proton_context {
	uint32_t shadow; /* context made of scopes and the state */
	uint32_t source; /* context made by the provider below, if a session asked for it */
	uint32_t sessions;
};

PROTON_API struct proton_context proton_context_here(void);
/* `where` one level deeper, in both of its contexts. */
PROTON_API struct proton_context proton_context_enter(struct proton_context where, uint32_t frame);
/* True when nothing would be recorded there: no session is active. */
PROTON_API bool proton_context_is_empty(struct proton_context where);

/*
 * The provider of source contexts (sessions with context "python"): called on the recording
 * thread whenever proton_context_here() runs and such a session is active; returns a context
 * made by proton_context_child() from PROTON_CONTEXT_ROOT. NULL takes it away. `depth` gives the
 * number of source frames of the calling thread; may be NULL.
 */
typedef uint32_t (*proton_context_provider_fn)(void);
PROTON_API void proton_context_provider_set(proton_context_provider_fn provide,
					    proton_context_provider_fn depth);

/* Open scopes (or source frames) of the calling thread, for `session`. E_RANGE. */
PROTON_API int proton_context_depth(int session, size_t *depth_out, struct proton_error *err);

/* ------------------------------------------------------------------ scopes and states */

/*
 * Enter a scope on the calling thread; the token ends it. 0 when no session is live.
 * Leaving a scope also leaves scopes entered after it that were never left (an exception or a
 * longjmp passed over them). Leaving one that was already left that way, or that belongs to a
 * session set that has ended, is no error.
 * E_STATE: the token belongs to another thread; nothing changes.
 */
PROTON_API uint64_t proton_scope_enter(const char *name);
PROTON_API uint64_t proton_scope_enter_frame(uint32_t frame);
PROTON_API int proton_scope_exit(uint64_t token, struct proton_error *err);

/* The same, and the wall time inside is added to the exclusive metric "cpu_time (ns)". */
PROTON_API uint64_t proton_scope_enter_timed(const char *name);
PROTON_API uint64_t proton_scope_enter_timed_frame(uint32_t frame);

/*
 * The same by a name of `length` bytes. `known` may be NULL; else it points to memory of the
 * caller's that belongs to this name, 0 at first, in which the name is remembered, so that entering
 * it again is as fast as by frame. With `name` NULL only a remembered name is entered; 0 if it is
 * not known any more.
 */
PROTON_API uint64_t proton_scope_enter_name(const char *name, size_t length, uint64_t *known);
PROTON_API uint64_t proton_scope_enter_timed_name(const char *name, size_t length, uint64_t *known);

/* Where the scope's own metrics belong (its context with the state at the time it was entered). */
PROTON_API struct proton_context proton_scope_context(uint64_t token);

/*
 * For runtimes with tasks that take turns on a thread (coroutines of an event loop): each task has
 * scopes and states of its own. The provider names the task that runs on the calling thread, by a
 * number that is not used again (0: none), and the origin of that task: what proton_task_origin()
 * returned where the task was made (0: unknown), whose scopes it is in at first. False: the thread
 * runs no tasks any more. It is asked at each measurement, in launches too, but only on threads on
 * which proton_tasks_follow() was called since, which a runtime does before a task enters a scope.
 */
struct proton_task {
	uint64_t id;
	uint64_t origin;
};
typedef bool (*proton_tasks_provider_fn)(struct proton_task *running_out);
PROTON_API void proton_tasks_provider_set(proton_tasks_provider_fn running);
PROTON_API void proton_tasks_follow(void);
PROTON_API uint64_t proton_task_origin(void);

/*
 * A state is the last level of every context recorded on this thread while it is set, below
 * scopes entered later too. States do not nest: an inner one hides the outer one until it is
 * left. "__proton_launch_metadata:KERNEL" makes two levels.
 */
PROTON_API void proton_state_enter(const char *name);
/* A state of two levels, or of one where `inner` is UINT32_MAX; for paths that hash no strings. */
PROTON_API void proton_state_enter_frames(uint32_t outer, uint32_t inner);
PROTON_API void proton_state_exit(void);

/*
 * NVTX ranges (nvtxRangePushA, W and Ex, nvtxDomainRangePushEx, and their pops) are scopes of the
 * thread that pushes them, while a session of a GPU backend is live. On by default; the variable
 * TRITON_ENABLE_NVTX=0 or `enable` false switches that off for this process, from the next range
 * on. Call it before the first session: NVTX looks for its tool once, at its first call.
 */
PROTON_API void proton_nvtx_enable(bool enable);

/* ------------------------------------------------------------------ metrics */

enum proton_metric_type {
	PROTON_METRIC_INT64 = 1,
	PROTON_METRIC_DOUBLE = 2,
	PROTON_METRIC_STRING = 3,
	PROTON_METRIC_INT64_VECTOR = 5,
	PROTON_METRIC_DOUBLE_VECTOR = 6,
};

/*
 * One named value. The end of `name` says how it behaves: "(exc)" exclusive, it does not add up
 * into the parents; "(pty)" property, the last value stays; "(inc)" or nothing: inclusive.
 * The suffix is not part of the name that is stored. Numbers and vectors recorded again in the
 * same context are added, strings and properties replaced.
 */
struct proton_metric {
	const char *name;
	enum proton_metric_type type;
	uint32_t count; /* elements of a vector; ignored otherwise */
	union {
		int64_t int64;
		double float64;
		const char *string;
		const int64_t *int64s;
		const double *float64s;
	} value;
	uint32_t name_id;  /* proton_metric_name(name), which saves looking `name` up; 0: look */
	uint32_t reserved; /* 0 */
};

/*
 * The number of a metric's name, suffix included: found or made, the same for the life of the
 * process and never 0. 0 when the name is NULL or empty, or when memory is out.
 */
PROTON_API uint32_t proton_metric_name(const char *name);

/* E_TYPE: the metric had another type before, or a vector another length; the others are added. */
PROTON_API int proton_metrics_add(struct proton_context where, const struct proton_metric *metrics,
				  size_t count, struct proton_error *err);

/* What an array in device memory is made of. */
enum proton_element {
	PROTON_ELEMENT_BOOL = 1, /* one byte */
	PROTON_ELEMENT_INT8 = 2,
	PROTON_ELEMENT_UINT8 = 3,
	PROTON_ELEMENT_INT16 = 4,
	PROTON_ELEMENT_UINT16 = 5,
	PROTON_ELEMENT_INT32 = 6,
	PROTON_ELEMENT_UINT32 = 7,
	PROTON_ELEMENT_INT64 = 8,
	PROTON_ELEMENT_UINT64 = 9,
	PROTON_ELEMENT_FLOAT16 = 10,
	PROTON_ELEMENT_BFLOAT16 = 11,
	PROTON_ELEMENT_FLOAT32 = 12,
	PROTON_ELEMENT_FLOAT64 = 13,
};

#define PROTON_DEVICE_METRIC_MAX_BYTES 65536u

/* A metric that lies in device memory. Set `size` to sizeof(struct proton_device_metric). */
struct proton_device_metric {
	size_t size;
	const char *name;             /* as in struct proton_metric */
	enum proton_metric_type type; /* a number or a vector; elements are converted to it */
	enum proton_element element;
	uint32_t count;    /* elements, contiguous; 1 for a number */
	uint32_t reserved; /* 0 */
	uint64_t address;  /* on the device */
	uint64_t stream;   /* the vendor's handle; 0: the default stream of the current context */
	void (*release)(void *user); /* may be NULL */
	void *user;
};

/*
 * Add a metric that the device computes. It is read in the order of `stream`, without waiting for
 * it, and is there after the next flush. While `stream` is being captured into a graph the reading
 * becomes part of the graph: the value of each execution is added below the replay it belongs to.
 *
 * The memory must stay as it is until `release(user)` is called: once, on any thread, from within
 * any function of this library or a callback of the driver, so it must not call either. In a graph
 * that is when the graph is gone or the last session has ended. `release` is not called when this
 * fails.
 * Errors: E_UNSUPPORTED when no session that is active at `where` has device memory, or the driver
 * cannot do it now (no context, no memory): read the value and use proton_metrics_add();
 * E_INVALID, more than PROTON_DEVICE_METRIC_MAX_BYTES for one.
 */
PROTON_API int proton_metrics_add_device(struct proton_context where,
					 const struct proton_device_metric *metric,
					 struct proton_error *err);

/* ------------------------------------------------------------------ kernels */

/*
 * A launch described by a language runtime: kernels launched on this thread until
 * proton_op_exit() carry `frame` as their name and belong to `*where_out`. Ops do not nest:
 * inside an op another op changes nothing and returns the outer one's context.
 */
PROTON_API void proton_op_enter(uint32_t frame, struct proton_context *where_out);
PROTON_API void proton_op_exit(void);

/* A kernel that runs on the CPU (device type "CPU"), on the calling thread, from begin to end. */
PROTON_API void proton_kernel_begin(uint32_t frame);
PROTON_API void proton_kernel_end(void);

/* ------------------------------------------------------------------ instrumented kernels */

/*
 * For language runtimes whose kernels were instrumented by Proton's compiler pass (backend
 * "instrumentation"). A kernel is known by the driver's handle of its function; `layout` is the
 * text that the pass gave, which travels with the compiled kernel. Replaces what was known of that
 * handle; may be called before a session starts. E_FORMAT: damaged layout. E_NOMEM.
 */
PROTON_API int proton_instrument_kernel(uint64_t function, const char *name, const char *layout,
					struct proton_error *err);
/* The function is unloaded. What it has written is decoded all the same. */
PROTON_API void proton_instrument_forget(uint64_t function);

/*
 * Memory on the current context's device for the launch that follows on this thread and `stream`
 * (the driver's handle): `bytes` are those of all CTAs of its grid. 0 when the launch is not
 * sampled: no session wants it, or no buffer is left; kernels cope with that. The memory is
 * Proton's and belongs to the launch until it has ended. Does not wait.
 */
PROTON_API uint64_t proton_instrument_buffer(size_t bytes, size_t alignment, uint64_t stream);
/*
 * The launch has been made; where it belongs is where the calling thread stands. Call it for every
 * launch, with or without a buffer.
 */
PROTON_API void proton_instrument_launched(uint64_t function, uint64_t stream);

/* ------------------------------------------------------------------ reading what was recorded */

/*
 * The profile of one phase of a live session, as the text of `format` ("hatchet" or
 * "hatchet_msgpack"), in memory that the caller releases with proton_free().
 * Does not wait for work in flight: proton_deactivate(session, true) does. E_RANGE: no such session
 * or phase ("Phase N has no data.").
 */
PROTON_API int proton_data_get(int session, uint32_t phase, const char *format, char **bytes_out,
			       size_t *length_out, struct proton_error *err);
PROTON_API void proton_free(void *memory);

/* Close the current phase and open the next, whose number is returned. */
PROTON_API int proton_phase_advance(int session, uint32_t *phase_out, struct proton_error *err);
/* True once everything launched in `phase` (and before) has been recorded. */
PROTON_API int proton_phase_is_complete(int session, uint32_t phase, bool *complete_out,
					struct proton_error *err);
/*
 * Drop the data of `phase`, or of every phase up to it. Clearing the current phase empties it, and
 * a later one has nothing to drop.
 */
PROTON_API int proton_phase_clear(int session, uint32_t phase, bool up_to,
				  struct proton_error *err);

/* What one session recorded and what it lost, by cause. Zero-initialise nothing: all is written. */
struct proton_counter {
	const char *name; /* static text, e.g. "kernels", "dropped: storage full" */
	uint64_t value;
	bool is_loss;
};
/* Fills up to `capacity` counters; returns how many there are, or E_RANGE. */
PROTON_API int proton_statistics(int session, struct proton_counter *counters, size_t capacity,
				 struct proton_error *err);

/*
 * One line that says what the last finalized session recorded, what was lost and where the
 * output is; "" when there is none. Copied into `text`, always terminated.
 */
PROTON_API void proton_last_summary(char *text, size_t capacity);

/* ------------------------------------------------------------------ what a device can do */

/*
 * The most operations per second that a device can do on operands of `width_bits` (4, 8, 16, 32 or
 * 64): dense rates of its matrix units, or of its vector units where these are faster or alone,
 * from the table behind proton-viewer's `util`.
 * `device_type` is "CUDA" or "HIP", `arch` the compute
 * capability ("90") or the target ("gfx942"); `num_sms` counts multiprocessors or compute units and
 * `clock_khz` is their clock, both of no effect where the table knows the rate of the whole device.
 * E_INVALID: not in the table, or no such width.
 */
PROTON_API int proton_peak_flops(const char *device_type, const char *arch, unsigned width_bits,
				 double num_sms, double clock_khz, double *flops_per_second_out,
				 struct proton_error *err);
/*
 * The most bytes per second that its memory can move: for CUDA, of any architecture, two transfers
 * per clock of a bus of `bus_width_bits`; for HIP the table knows, and neither is looked at.
 * E_INVALID: not in the table.
 */
PROTON_API int proton_peak_bytes(const char *device_type, const char *arch, double bus_width_bits,
				 double memory_clock_khz, double *bytes_per_second_out,
				 struct proton_error *err);
/*
 * The architectures of `device_type` in that table, by index from 0; NULL after the last one, and
 * for an unknown type. The string is constant.
 */
PROTON_API const char *proton_peak_arch(const char *device_type, uint32_t index);

#ifdef __cplusplus
}
#endif

#endif
