/*
 * libproton: records the work of a GPU (or of a GPU language's interpreter on the CPU), per calling
 * context.
 *
 * Sessions   A session is one profile that is recorded into `<name>.proton`, a memory-mapped file
 *            that survives a crash. Several sessions may be live at once. Finalizing a session
 *            writes the requested output (default `<name>.hatchet`) and removes the working file.
 * Contexts   Scopes form a stack per thread; a kernel launch is attributed to the scope stack of
 *            its thread. A thread without scopes is attributed to the current scopes of the
 *            thread that started the first live session.
 * Metrics    Numbers, vectors and strings attached to a context. Repeated values are summed,
 *            unless the metric is a property.
 *
 * Every function is thread-safe and may be called when no session is live: recording functions then
 * do nothing and succeed. After fork() the child records nothing until it starts a session. No
 * function exits, aborts or prints to standard output (unless the session's name requests it).
 * Strings are UTF-8 and copied; the library keeps no pointer that is passed in.
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

/* The version of the loaded library, "major.minor.patch"; compare with PROTON_VERSION. */
PROTON_API const char *proton_version(void);

/* ------------------------------------------------------------------ sessions */

#define PROTON_ALL_SESSIONS (-1)

enum proton_session_flag {
	PROTON_SESSION_KEEP_WORKING_FILE = 1u << 0, /* keep `<name>.proton` too */
	PROTON_SESSION_QUIET = 1u << 1,             /* no warnings on standard error */
	PROTON_SESSION_MEMORY = 1u << 2,            /* record GPU memory copies and memsets */
	PROTON_SESSION_NO_CLOBBER = 1u << 3,        /* reject a name with existing output */
	PROTON_SESSION_RANKS = 1u << 4,             /* in a job of many ranks, see `name` */
};

/* Options of proton_start(). Set `size` to sizeof(struct proton_session_options), the rest to 0. */
struct proton_session_options {
	size_t size;
	/*
	 * Output path without suffix (the suffix of an output is removed). NULL: "proton"; "" or
	 * "-": standard output. With PROTON_SESSION_RANKS, or if NULL, a rank of a job of many
	 * writes `<name>.ranks/000-999/rank000123`, and the default format of trees is "proton".
	 */
	const char *name;
	const char *context; /* "shadow" (scopes, default); with the Python package also
			      "python" and "python+scopes" */
	const char *data;    /* "tree" (default) or "trace": adds trace events */
	const char *backend; /* a name of proton_backend_name(); NULL: the first usable one */
	/*
	 * Mode of the backend, "name[:key=value]..."; NULL or "": its default. In mode
	 * "periodic_flushing[:format=NAME]" proton_phase_advance() writes the phases before the new
	 * one and clears them.
	 */
	const char *mode;
	const char *format; /* output format, unless proton_finalize() gives one; NULL: "hatchet" */
	uint32_t flags;     /* PROTON_SESSION_* */
	uint32_t reserved;  /* 0 */
};

/*
 * Start recording. `options` may be NULL. Starting a session with the name of a live session
 * activates that session again and returns its id (the other options are ignored). Ids count up
 * from 0 and are never reused. On failure nothing is left active or on disk.
 *
 * An earlier profile of that name is replaced when the session is finalized, unless nothing was
 * recorded, PROTON_SESSION_NO_CLOBBER is given or the variable PROTON_NO_CLOBBER=1 is set. A file
 * that is not a profile is never replaced.
 *
 * Errors: E_INVALID (unknown context, data, backend or mode; a name that cannot be an output, or
 * with a file that must not be replaced), E_IO and E_NOSPACE (working file), E_NOMEM,
 * E_UNSUPPORTED, and the backend's own E_NOLIB, E_BUSY, E_PERMISSION, E_VERSION.
 */
PROTON_API int proton_start(const struct proton_session_options *options, int *session_out,
			    struct proton_error *err);

/*
 * Resume or pause one session, or PROTON_ALL_SESSIONS. Repeating the call is harmless. Scopes
 * entered while a session is paused still count as context later. `flush` waits for work that was
 * already launched; everything recorded so far can then be read. E_RANGE: no such session.
 */
PROTON_API int proton_activate(int session, struct proton_error *err);
PROTON_API int proton_deactivate(int session, bool flush, struct proton_error *err);

/*
 * End one session or PROTON_ALL_SESSIONS and write its output. `format` is NULL or "" for the
 * format given to proton_start(), "hatchet", "hatchet_msgpack", "proton" (keep the completed
 * working file), "none", and for traces "chrome_trace" or "perfetto". An unknown format, or one
 * that does not fit the session's data, is rejected with E_INVALID before any session ends. If the
 * output cannot be written the working file is kept and the error names both paths. If a backend
 * could not record any kernel, the output is written and the error says why. Ending a session that
 * does not exist is not an error. May be called inside open scopes. Returns after sessions that
 * other threads are ending at the same time have been written.
 */
PROTON_API int proton_finalize(int session, const char *format, struct proton_error *err);

/* True while at least one session is live (started and not finalized). Costs one load. */
PROTON_API bool proton_is_profiling(void);

/*
 * Write the data of a session so far; it continues recording, and no launch waits. `name` is an
 * output path without suffix; NULL: `<session's name>.snapshot_N`, with N from 1. `format` is as in
 * proton_finalize(), without "none". Work launched so far is waited for. The path is copied into
 * `path_out` (may be NULL), always NUL-terminated. E_RANGE: no such session.
 */
PROTON_API int proton_snapshot(int session, const char *name, const char *format, char *path_out,
			       size_t capacity, struct proton_error *err);

/* ------------------------------------------------------------------ control from outside */

/*
 * Listen for the commands of `proton ctl`, on a socket in the user's runtime directory
 * (XDG_RUNTIME_DIR/proton, else /tmp/proton-UID). Until a session is started, nothing is recorded
 * and CUPTI is not touched; proton_prepare() is called. `defaults` (may be NULL) are the options of
 * sessions, unless the command has its own. `proton ctl` finds the process by the last part of its
 * name there. Sessions started by a command have the calling thread as their main thread. Listening
 * again changes the defaults only. A forked child does not listen until it calls this.
 *
 * Errors: E_PERMISSION (the directory is not the user's own, or the process has elevated
 * privileges), E_IO, E_NOMEM, E_INVALID (the name).
 */
PROTON_API int proton_listen(const struct proton_session_options *defaults,
			     struct proton_error *err);
/*
 * A process that listens starts a session by itself, `after_s` seconds from now (0: before this
 * returns), and ends it `length_s` seconds later (0: never), as the commands do. Failures are
 * printed. E_STATE: it does not listen. E_INVALID: negative, or more than 10^9 seconds.
 */
PROTON_API int proton_listen_timed(double after_s, double length_s, struct proton_error *err);
/*
 * A process that listens starts a session at the first entry of the scope or NVTX range `name`, on
 * any thread, and ends it when that one is exited. Both wait until it is done. Only while no
 * session is live. E_INVALID: the name is empty.
 */
PROTON_API int proton_listen_range(const char *name, struct proton_error *err);
/* True until then. A runtime that enters no scopes while nothing is recorded enters them now. */
PROTON_API bool proton_range_is_awaited(void);
/*
 * Stop listening, after the command that is being carried out, at most 5 s. A session that it has
 * started stays. The end of the program does this too.
 */
PROTON_API void proton_listen_end(void);
PROTON_API bool proton_is_listening(void);
/*
 * How commands start and end sessions, for runtimes with more options than proton_start() has.
 * Called on the thread of the commands. `hook` is NULL or the name of one. NULL: proton_start() and
 * proton_finalize(). The object stays valid.
 */
struct proton_starter {
	int (*start)(const struct proton_session_options *options, const char *hook,
		     int *session_out, struct proton_error *err);
	int (*finalize)(int session, const char *format, struct proton_error *err);
	/*
	 * Around a wait of a thread of the program for these two: the first gives a lock of the
	 * runtime back that the thread holds, and returns NULL if it holds none.
	 */
	void *(*let_go)(void);
	void (*take_back)(void *held);
};
PROTON_API void proton_starter_set(const struct proton_starter *starter);

/* The name of the `index`-th backend, NULL after the last one. Pointers are static. */
PROTON_API const char *proton_backend_name(size_t index);
/*
 * The current default backend of new sessions: PROTON_BACKEND, else the first usable one. NULL:
 * PROTON_BACKEND is unknown.
 */
PROTON_API const char *proton_backend_default(void);
/* The backend of a live session, a static name; NULL if there is no such session. */
PROTON_API const char *proton_session_backend(int session);
/*
 * The output path of a session without suffix, with the rank if it has one; "" for standard output
 * and if there is no such session. Copied into `path`, always NUL-terminated; the full length.
 */
PROTON_API size_t proton_session_path(int session, char *path, size_t capacity);

/*
 * Finalize every session when SIGTERM, SIGHUP or SIGINT arrives, report that on standard error
 * unless all sessions are quiet, then perform the signal's default action. Installs handlers only
 * for signals that still have the default disposition. The library never calls this itself: the
 * program has to.
 */
PROTON_API int proton_finalize_on_signals(struct proton_error *err);
/*
 * For a tool that owns the session: when one of these signals has arrived, `end` is called first,
 * on the finalizing thread, while the program continues. It may wait and end the session itself.
 * NULL: no function.
 */
typedef void (*proton_signal_fn)(void);
PROTON_API void proton_at_signal(proton_signal_fn end);

/*
 * For a tool that launched the program and owns the session: from now on proton_start() in this
 * process only returns the live session and proton_finalize() does nothing. The tool ends the
 * session with proton_finalize_owned().
 */
PROTON_API void proton_own_sessions(void);
/*
 * Registers with vendor libraries that accept a profiler only before the program first uses the
 * GPU: rocprofiler-sdk, in a process that seems to use HIP. Call it as early as possible if a
 * session may be started later; proton_start() does it too. Failures are reported by the start.
 */
PROTON_API void proton_prepare(void);
/*
 * For tools that rocprofiler-sdk loads (ROCP_TOOL_LIBRARIES): the body of rocprofiler_configure(),
 * with its arguments and its result. NULL if this process has registered before, or if the version
 * is not supported.
 */
PROTON_API void *proton_rocprofiler_configure(uint32_t version, const char *version_text,
					      uint32_t priority, void *client);
/*
 * For tools loaded by the driver during initialization (CUDA_INJECTION64_PATH). After
 * proton_await_driver(), backends do not touch the vendor library until proton_driver_initialises()
 * is called: the process may fork before it uses the GPU, and the vendor library does not work in
 * children of processes that have used it. Call proton_await_driver() before proton_start(), and
 * proton_driver_initialises() inside the initialization (InitializeInjection()). It returns the
 * error of a backend that cannot start; proton_finalize_owned() then returns it too.
 */
PROTON_API void proton_await_driver(void);
PROTON_API int proton_driver_initialises(struct proton_error *err);
/*
 * For such a tool, inside the initialization, if no session begins there. CUPTI's first
 * subscription can crash threads that call the driver at that time; later ones do not.
 * Subscribes once and leaves CUPTI. Does nothing with CUPTI 13.3 or later, or without CUPTI.
 */
PROTON_API void proton_prime_vendor(void);
/*
 * For a tool that is loaded into processes that mostly never use this library (shells, env,
 * compilers): proton_await_use() sets a function that starts the session, and proton_use() calls
 * it, once; so does proton_start(). A runtime that has scopes without a start calls proton_use()
 * when it is loaded, as the Python package does.
 */
PROTON_API void proton_await_use(void (*begin)(void));
PROTON_API void proton_use(void);
/*
 * E_IO also if kernels were launched but no activity records were received for them, and the error
 * of proton_driver_initialises() if it failed; the output is written. If no session is live, the
 * error of the call that ended them: several exit functions may call this.
 */
PROTON_API int proton_finalize_owned(const char *format, struct proton_error *err);
PROTON_API bool proton_sessions_are_owned(void);

/* ------------------------------------------------------------------ frames and contexts */

/*
 * A frame names one level of a calling context. Ids are process-wide, small and, if these functions
 * return them, never reused. UINT32_MAX if out of memory; the functions below treat it as "no
 * further level". A process with too many names (PROTON_MAX_NAMES) gets PROTON_FRAME_OTHER, the
 * frame of "(other)".
 */
PROTON_API uint32_t proton_frame(const char *name, size_t length);
#define PROTON_FRAME_OTHER 1u
/*
 * The frame of a scope or state that the calling thread enters next: like proton_frame(), but
 * PROTON_FRAME_OTHER for a new name if the thread's innermost scope already has the maximum number
 * of children (PROTON_MAX_CHILDREN). Use it for an unlimited number of names, such as those of
 * requests: the number of frames is then limited. proton_scope_enter() does the same.
 */
PROTON_API uint32_t proton_scope_frame(const char *name, size_t length);
/* A source frame, displayed as "file:line@function". */
PROTON_API uint32_t proton_frame_source(const char *file, size_t file_length, const char *function,
					size_t function_length, uint32_t line);

#define PROTON_CONTEXT_ROOT 0u

/*
 * The context reached from `parent` by `frame`, made if necessary; that of "(other)" if `parent`
 * has the maximum number of children. PROTON_CONTEXT_ROOT on E_NOMEM.
 */
PROTON_API uint32_t proton_context_child(uint32_t parent, uint32_t frame);
/*
 * The innermost scope, or other frame that is a name, on the path of *context, which becomes the
 * context above it. The text does not end with a zero. NULL: there is none.
 */
PROTON_API const char *proton_context_name(uint32_t *context, uint32_t *length_out);
/* The deepest context on the paths of both. */
PROTON_API uint32_t proton_context_common(uint32_t a, uint32_t b);

/*
 * Attribution of a measurement: the calling thread's contexts and the set of sessions (with their
 * phases) that were active. It is small, to be stored with the launched work. It is valid for the
 * life of the process, and has no effect after its sessions have ended.
 */
struct proton_context {
	uint32_t shadow; /* context made of scopes and the state */
	uint32_t source; /* context made by the provider below, if a session requested it */
	uint32_t sessions;
};

PROTON_API struct proton_context proton_context_here(void);
/* `where` one level deeper, in both of its contexts. */
PROTON_API struct proton_context proton_context_enter(struct proton_context where, uint32_t frame);
/* True if no session is active there, so nothing would be recorded. */
PROTON_API bool proton_context_is_empty(struct proton_context where);

/*
 * The provider of source contexts (sessions with context "python" or
 * "python+scopes"). It is called on the recording
 * thread whenever proton_context_here() runs and such a session is active, and returns a context
 * made by proton_context_child() from PROTON_CONTEXT_ROOT. NULL removes it. `depth` returns the
 * number of source frames of the calling thread; may be NULL.
 */
typedef uint32_t (*proton_context_provider_fn)(void);
PROTON_API void proton_context_provider_set(proton_context_provider_fn provide,
					    proton_context_provider_fn depth);

/*
 * Called on the launching thread before each launch of a kernel for which no proton_op_enter() is
 * open, with the context of the launch and the frame of the kernel: metrics that are added there,
 * or one level deeper, count with the kernel, in a captured graph at each replay. NULL removes it.
 */
typedef void (*proton_launch_observer_fn)(struct proton_context where, uint32_t kernel);
PROTON_API void proton_launch_observer_set(proton_launch_observer_fn launched);

/*
 * Context "python+scopes": the provider puts the open scopes of the calling thread, outermost
 * first, between its frames. `place` is what `place` below returned when the scope was entered; 0:
 * it is not known. Scopes in which the running task was made have PROTON_PLACE_TASK: they come
 * before its first frame. Writes up to `capacity` and returns how many; 0 if no active session has
 * that context.
 */
struct proton_open_scope {
	uint64_t place;
	uint32_t frame;
	uint32_t reserved;
};
#define PROTON_PLACE_TASK UINT64_MAX
PROTON_API uint32_t proton_scopes_open(struct proton_open_scope *scopes, uint32_t capacity);
/* True if an active session has that context. */
PROTON_API bool proton_scopes_wanted(void);
/* `place` returns where the calling thread is in its call stack, in its own coding; NULL: none. */
PROTON_API void proton_scope_place_set(uint64_t (*place)(void));

/*
 * For runtimes that run work on behalf of earlier work, such as the backward operators of
 * autograd. The provider is called where scopes are entered and where proton_context_here() uses
 * them. It gets the context of the innermost scope (or that of the main thread), and the work in
 * which this scope was entered (0: none). It returns the context to use: that of a scope entered
 * in the running work itself, or the one kept for the earlier work. `work_out` is NULL for a
 * launch. If a scope is entered, it is not NULL and gets the running work. NULL removes the
 * provider.
 */
typedef uint32_t (*proton_scope_provider_fn)(uint32_t context, uint64_t work, uint64_t *work_out);
PROTON_API void proton_scope_provider_set(proton_scope_provider_fn provide);
/* In this provider: keeps the names on the path of `context` from being reused. */
PROTON_API void proton_context_keep(uint32_t context);
/* Counts a measurement that could not be attributed to the earlier work, in each session. */
PROTON_API void proton_origin_unknown(void);

/*
 * For runtimes that can hold the program's threads outside of GPU calls, as Python does with its
 * interpreter lock. Recording ends at any moment, also while other threads replay CUDA graphs; then
 * CUPTI can be left only while they are held, for 5 to 20 ms. Without a holder, or if threads that
 * it does not cover replay graphs, CUPTI stays attached, which costs each replay 0.5 us of CPU time
 * per node. `begin` returns when no covered thread except the caller can begin a GPU call; false if
 * that is not possible now; while another thread holds, it waits as covered threads do. `end` is
 * called by the same thread. `covers` is called on any thread, often, and must not wait. NULL
 * removes the holder, after the end of a hold: call it without what `begin` waits for. The object
 * stays valid until it is replaced.
 */
struct proton_holder {
	bool (*begin)(void);
	void (*end)(void);
	bool (*covers)(void);
};

PROTON_API void proton_holder_set(const struct proton_holder *holder);
/*
 * Leaves the GPU vendor's profiling library, if no session uses it and Proton has stayed in it, so
 * that another tool can use it. True if nothing is in its way.
 */
PROTON_API bool proton_leave_vendor(void);
/*
 * The program begins a step that is mostly as much work as the others, such as a replay of a CUDA
 * graph. In windows (the mode "default:windows=...") a program is slower: the rate of its steps
 * outside of windows corrects the estimates. Any thread, at any time.
 */
PROTON_API void proton_note_step(void);

/* The number of open scopes (or source frames) of the calling thread, for `session`. E_RANGE. */
PROTON_API int proton_context_depth(int session, size_t *depth_out, struct proton_error *err);

/* ------------------------------------------------------------------ scopes and states */

/*
 * Enter a scope on the calling thread; the token ends it. 0 if no session is live. Exiting a scope
 * also exits scopes that were entered after it and not exited (because of an exception or a
 * longjmp). Exiting a scope that was already exited that way, or that belongs to ended sessions, is
 * not an error. E_STATE: the token belongs to another thread; nothing changes.
 */
PROTON_API uint64_t proton_scope_enter(const char *name);
PROTON_API uint64_t proton_scope_enter_frame(uint32_t frame);
PROTON_API int proton_scope_exit(uint64_t token, struct proton_error *err);

/* The same, and the wall time in the scope is added to the exclusive metric "cpu_time (ns)". */
PROTON_API uint64_t proton_scope_enter_timed(const char *name);
PROTON_API uint64_t proton_scope_enter_timed_frame(uint32_t frame);

/*
 * The same with a name of `length` bytes. `known` may be NULL. Otherwise it points to memory of the
 * caller for this name, initially 0, which caches it: entering it again is then as fast as with a
 * frame. With `name` NULL only a cached name is entered; 0 if it is no longer known.
 */
PROTON_API uint64_t proton_scope_enter_name(const char *name, size_t length, uint64_t *known);
PROTON_API uint64_t proton_scope_enter_timed_name(const char *name, size_t length, uint64_t *known);

/* The attribution of the scope's own metrics (its context with the state at its entry). */
PROTON_API struct proton_context proton_scope_context(uint64_t token);

/*
 * For runtimes with tasks that take turns on a thread (coroutines of an event loop): each task has
 * its own scopes and states. The provider returns an id of the task that runs on the calling
 * thread, which is never reused (0: none), and the origin of that task: the value that
 * proton_task_origin() returned where the task was made (0: unknown). The task starts inside the
 * scopes of its origin. False: the thread no longer runs tasks. The provider is called at each
 * measurement, including launches, but only on threads that have called proton_tasks_follow(),
 * which a runtime does before a task enters a scope.
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
 * A state is the last level of every context recorded on this thread while it is set, including
 * those of scopes entered later. States do not nest: an inner one hides the outer one until it is
 * exited. "__proton_launch_metadata:KERNEL" makes two levels.
 */
PROTON_API void proton_state_enter(const char *name);
/* A state of two levels, or of one if `inner` is UINT32_MAX; without hashing of strings. */
PROTON_API void proton_state_enter_frames(uint32_t outer, uint32_t inner);
PROTON_API void proton_state_exit(void);

/*
 * NVTX ranges (nvtxRangePushA, W and Ex, nvtxDomainRangePushEx, and their pops) are scopes of the
 * thread that pushes them, while a session of a GPU backend is live. Enabled by default; the
 * variable TRITON_ENABLE_NVTX=0 or `enable` false disables them for this process, from the next
 * range on. Call it before the first session: NVTX looks for its injection library once, at its
 * first call.
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
 * One named value. The suffix of `name` selects its behavior: "(exc)" exclusive, it is not added to
 * the parents; "(pty)" property, the last value is kept; "(inc)" or no suffix: inclusive. The
 * stored name has no suffix. Repeated numbers and vectors in a context are summed, strings and
 * properties replaced.
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
	uint32_t name_id;  /* proton_metric_name(name), to skip looking up `name`; 0: look it up */
	uint32_t reserved; /* 0 */
};

/*
 * The id of a metric's name with its suffix, not 0; made if necessary. It never changes while the
 * process lives. Returns 0 if the name is NULL or empty, or if out of memory.
 */
PROTON_API uint32_t proton_metric_name(const char *name);

/* E_TYPE: the metric had a different type, or a vector a different length; the others are added. */
PROTON_API int proton_metrics_add(struct proton_context where, const struct proton_metric *metrics,
				  size_t count, struct proton_error *err);

/* Element type of an array in device memory. */
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

/* A metric in device memory. Set `size` to sizeof(struct proton_device_metric). */
struct proton_device_metric {
	size_t size;
	const char *name;             /* as in struct proton_metric */
	enum proton_metric_type type; /* a number or a vector; elements are converted to its type */
	enum proton_element element;
	uint32_t count;    /* elements, contiguous; 1 for a number */
	uint32_t reserved; /* 0 */
	uint64_t address;  /* on the device */
	uint64_t stream;   /* the driver's handle; 0: the default stream of the current context */
	void (*release)(void *user); /* may be NULL */
	void *user;
};

/*
 * Add a device metric. It is read in the order of `stream`, without waiting for it, and its value
 * is available after the next flush. While `stream` is being captured into a graph the read becomes
 * part of the graph: the value of each execution is added below its graph replay.
 *
 * The memory must stay unchanged until `release(user)` is called: once, on any thread, from within
 * any function of this library or a callback of the driver, so it must not call either. For a graph
 * that is when the graph is destroyed or the last session has ended. `release` is not called if
 * this function fails.
 *
 * Errors: E_UNSUPPORTED if no session that is active at `where` has device memory, or if the driver
 * cannot do it now (no context, no memory): read the value and use proton_metrics_add(). E_INVALID,
 * for example for more than PROTON_DEVICE_METRIC_MAX_BYTES.
 */
PROTON_API int proton_metrics_add_device(struct proton_context where,
					 const struct proton_device_metric *metric,
					 struct proton_error *err);

/* ------------------------------------------------------------------ kernels */

/*
 * A launch described by a language runtime: kernels launched on this thread until proton_op_exit()
 * have `frame` as their name and are attributed to `*where_out`. Ops do not nest: inside an op
 * another op changes nothing and returns the outer one's context.
 */
PROTON_API void proton_op_enter(uint32_t frame, struct proton_context *where_out);
PROTON_API void proton_op_exit(void);

/* A kernel that runs on the CPU (device type "CPU"), on the calling thread, from begin to end. */
PROTON_API void proton_kernel_begin(uint32_t frame);
PROTON_API void proton_kernel_end(void);

/*
 * A directory with kernels that Triton compiled, in addition to the one that the environment names
 * (TRITON_CACHE_DIR, TRITON_HOME): PC sampling looks there for machine code and inlined calls.
 */
PROTON_API void proton_kernel_cache_add(const char *path);

/* ------------------------------------------------------------------ instrumented kernels */

/*
 * For language runtimes with kernels instrumented by Proton's compiler pass (backend
 * "instrumentation"). A kernel is identified by the driver's handle of its function; `layout` is
 * the text returned by the pass, which is stored with the compiled kernel. Replaces an earlier
 * kernel with that handle; may be called before a session starts. E_FORMAT: corrupt layout.
 * E_NOMEM.
 */
PROTON_API int proton_instrument_kernel(uint64_t function, const char *name, const char *layout,
					struct proton_error *err);
/* The function is unloaded. Its existing records are still decoded. */
PROTON_API void proton_instrument_forget(uint64_t function);

/*
 * Memory on the current context's device for the next launch on this thread and `stream` (the
 * driver's handle): `bytes` is the total for all CTAs of its grid. 0 if the launch is not sampled,
 * because no session needs it or no buffer is left; kernels accept that. The memory belongs to
 * Proton, and to the launch until it has completed. Does not wait.
 */
PROTON_API uint64_t proton_instrument_buffer(size_t bytes, size_t alignment, uint64_t stream);
/*
 * The launch is about to be made; `function` may also be a plain kernel of a closed loop. Optional:
 * without it, no prices are measured.
 */
PROTON_API void proton_instrument_launching(uint64_t function, uint64_t stream);
/*
 * The launch has been made; it is attributed to the calling thread's context. Call it for every
 * launch, with or without a buffer. True if the mode has a budget for automatic scopes and the
 * caller has something to do, which it may ignore: begin a closed loop for this kernel if it has
 * none, which is asked for once per session; else compile what proton_instrument_wanted() returns,
 * and make the next launch with the variant proton_instrument_choice().
 */
PROTON_API bool proton_instrument_launched(uint64_t function, uint64_t stream);

/*
 * Closed loops: launches of a kernel rotate between variants with different automatic scopes, and
 * the price of the scopes is measured. Variant 0 is the plain kernel. The loaded kernel `function`
 * becomes variant 1 of a new loop, with the first `first` of its scopes; their `names` are one per
 * line. `decisions` are those of an earlier process for the same scopes, compiler, GPU and budget;
 * NULL: none; ignored if they do not fit. E_INVALID: the function is unknown. E_NOMEM.
 */
PROTON_API int proton_instrument_loop(uint64_t function, const char *names, uint32_t first,
				      const char *decisions, struct proton_error *err);
/*
 * The decisions of the loop that has `function`, once all its sets of scopes are decided: text for
 * proton_free(). NULL: there are none since the last call, or no memory.
 */
PROTON_API char *proton_instrument_decisions(uint64_t function);
/*
 * A variant to compile, in the loop that has `function`: with the scopes from `*first_out` up to
 * `*end_out`, which are equal for the plain kernel. False if there is none now.
 */
PROTON_API bool proton_instrument_wanted(uint64_t function, uint32_t *variant_out,
					 uint32_t *first_out, uint32_t *end_out);
/*
 * It was loaded as `made`, and registered by proton_instrument_kernel() unless it is plain. 0: it
 * could not be made, or needs more registers or memory than its scopes are worth.
 */
PROTON_API void proton_instrument_made(uint64_t function, uint32_t variant, uint64_t made);
/* True if the stream is being captured into a graph, or that is unknown. */
PROTON_API bool proton_instrument_is_capturing(uint64_t stream);
/* The variant for the next launch, or if `is_usual`, for launches that are not measured. */
PROTON_API uint32_t proton_instrument_choice(uint64_t function, bool is_usual);
/*
 * Around loading a variant: the driver calls of this thread do not disturb other threads that
 * capture graphs.
 */
PROTON_API void proton_instrument_load_begin(void);
PROTON_API void proton_instrument_load_end(void);

/* ------------------------------------------------------------------ reading recorded data */

/*
 * The profile of one phase of a live session, as text in `format` ("hatchet" or "hatchet_msgpack"),
 * in memory that the caller releases with proton_free(). Does not wait for work in flight:
 * proton_deactivate(session, true) does. E_RANGE: no such session or phase ("Phase N has no
 * data.").
 */
PROTON_API int proton_data_get(int session, uint32_t phase, const char *format, char **bytes_out,
			       size_t *length_out, struct proton_error *err);
PROTON_API void proton_free(void *memory);

/* Close the current phase and open the next; returns the number of the new phase. */
PROTON_API int proton_phase_advance(int session, uint32_t *phase_out, struct proton_error *err);
/* True once all work launched in `phase` (and before) has been recorded. */
PROTON_API int proton_phase_is_complete(int session, uint32_t phase, bool *complete_out,
					struct proton_error *err);
/*
 * Drop the data of `phase`, or of every phase up to it. Clearing the current phase empties it; a
 * later phase has no data to drop.
 */
PROTON_API int proton_phase_clear(int session, uint32_t phase, bool up_to,
				  struct proton_error *err);

/* A count of recorded or lost data of a session. All fields are output. */
struct proton_counter {
	const char *name; /* static text, e.g. "kernels", "lost: profile storage full" */
	uint64_t value;
	bool is_loss;
};
/* Fills up to `capacity` counters; returns the number of available counters, or E_RANGE. */
PROTON_API int proton_statistics(int session, struct proton_counter *counters, size_t capacity,
				 struct proton_error *err);

/*
 * A line of text about the last finalized session: recorded and lost data, and the output path; ""
 * if there is none. Copied into `text`, always NUL-terminated.
 */
PROTON_API void proton_last_summary(char *text, size_t capacity);

/*
 * Adds one occurrence of a collective that was timed on the host to the context `where`, for the
 * waiting of ranks. Kernels of collectives need no call.
 */
PROTON_API void proton_collective(struct proton_context where, uint64_t duration_ns);

/* ------------------------------------------------------------------ peak rates */

/*
 * Peak rate in operations per second for operands of `width_bits` (4, 8, 16, 32 or 64): dense rate
 * of matrix units, or of vector units if these are faster or the only ones, from the table that
 * proton-viewer uses for `util`. `device_type` is "CUDA" or "HIP", `arch` the compute capability
 * ("90") or the target ("gfx942"). `num_sms` is the number of SMs or compute units and `clock_khz`
 * their clock rate; both are ignored if the table contains the rate of the whole device. E_INVALID:
 * not in the table, or no such width.
 */
PROTON_API int proton_peak_flops(const char *device_type, const char *arch, unsigned width_bits,
				 double num_sms, double clock_khz, double *flops_per_second_out,
				 struct proton_error *err);
/*
 * Peak memory bandwidth in bytes per second. CUDA, any architecture: two transfers per clock of a
 * bus of `bus_width_bits`. HIP: from the table, and the other two arguments are ignored. E_INVALID:
 * not in the table.
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
