/* Internal interface of libproton_inject.so, and its entry point for the NVIDIA driver. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <libproton/status.h>

/* ------------------------------------------------------------------ inject.c */

/* Called in cuInit(), on its thread. 1: the driver continues. */
PROTON_API int InitializeInjection(void);

/* False in a child after fork() or vfork(). */
bool inject_is_owner(void);
/* In a handler of a signal that ends the process. True: a live session, nothing of CUDA used. */
bool inject_is_ended_by_signal(void);
/* Before another program runs here: ends the session; an empty one leaves its name. False: none. */
bool inject_leave(void);
/* The replacement failed: starts a session again. */
void inject_return(void);
/* coreutils programs close standard error in an exit function, before the line is printed. */
void inject_wrapper_closes_error(void);
/* In _exit(): ends the session if the process has not used it; shells do not. */
void inject_wrapper_exits(int status);

/* ------------------------------------------------------------------ inject_environment.c */

/*
 * The variables that `proton` set (handover.h). They are removed in place, because programs such as
 * bash read the array that main() was given, and define their own getenv() and unsetenv(), which do
 * not work yet.
 */

/* Copies; NULL for options that were not given. */
struct inject_options {
	char *quiet; /* "0" or "1" */
	char *name;
	char *backend;
	char *context;
	char *mode;
	char *data;
	char *format;
	char *memory;     /* "1" */
	char *wait;       /* listen for proton ctl, see HANDOVER_WAIT */
	char *viewer;     /* command name of proton-viewer */
	char *children;   /* base of their output names; NULL: children are not recorded */
	pid_t target;     /* the process id of the target; 0: any process that reads this */
	bool is_gathered; /* children report to the target */
	bool is_followed; /* the variables stay in the environment, for the driver */
};

/* False, with nothing to free, if this process was not started by `proton`. */
bool inject_environment_read(struct inject_options *options);

/* Removes this library from LD_PRELOAD. False if it was not there. */
bool inject_environment_leave_preload(void);
/* True if the process will load this library when it initializes CUDA or HIP. */
bool inject_environment_is_for_driver(void);
/* True if the program or a library linked to it uses libproton. */
bool inject_environment_is_needed(void);

/* ------------------------------------------------------------------ inject_signals.c */

/*
 * Signal handling of libproton_inject.so for signals that end the program (SIGTERM, SIGHUP,
 * SIGINT). The program sees and sets dispositions as if there were no recorder: its handlers work,
 * and signals with the default action end it with a profile.
 */

/* Blocks the signals on this thread. */
void inject_signals_hold(sigset_t *previous);

/* Called with the session; `end` as in proton_at_signal(). */
void inject_signals_watch(void (*end)(void));

/* In `end`: dispositions set by this thread are the real ones. */
void inject_signals_own_thread(void);

/* A wrapper stays at the signal, and starts no command; it awaits the default action. */
void inject_signals_release(void);

/* If a signal is pending, waits until it ends the process. */
void inject_signals_settle(void);

/* Before another program replaces this one: a pending signal ends it, later ones act at once. */
void inject_signals_leave(void);
/* The replacement failed. */
void inject_signals_return(void);

/* ------------------------------------------------------------------ inject_children.c */

/*
 * Child processes of a program run by `proton -- program`: each writes BASE.PID and reports to the
 * first process, which reads the reports when it exits. If only one process recorded anything, and
 * the first one was a wrapper (env, sh, timeout), its files are renamed to the requested name.
 *
 * Reports are in memory that the first process shares as an unnamed file. Other processes find it
 * among the descriptors of the first one, so no file remains however a process ends.
 */

struct children {
	size_t count;       /* processes that recorded anything */
	char first[64];     /* the first one to exit: its name after BASE. */
	char summary[1024]; /* of that process */
};

/* In the first process: enables reports of others. */
void children_invite(void);

/* This process records, and `root` is the first one. */
void children_enter(pid_t root);
/* This process started to write its profile: `root` waits longer for it. */
void children_end_begins(void);
/* This process has written BASE.PART. False if `root` has exited, or takes no reports. */
bool children_report(pid_t root, const char *part, const char *summary);
/* This process stops recording. */
void children_leave(void);

/*
 * In the first process, at exit: waits up to a few seconds for processes that write their profiles.
 * If a signal ended this process, it may soon end the others too: they get only half a second.
 * Takes no locks and allocates nothing.
 */
void children_wait(bool is_by_signal);
/* The reports so far; later ones are rejected. */
void children_gather(struct children *children);

/* Renames the files BASE.PART.* of the first process to BASE.*, and updates the summary. */
void children_take_name(const char *base, struct children *children);

/* ------------------------------------------------------------------ inject_exec.c */

/*
 * exec and posix_spawn wrappers of libproton_inject.so: the recorder follows into a program that
 * the target starts, in the same process (env, nice, `exec` in a shell) or in a child (timeout, `sh
 * -c`). The environment that the program sees and passes on stays unchanged.
 */

extern const char *inject_library; /* the path of this library; NULL: unknown */
/* True if it is the first of the libraries in `preload`. */
bool inject_is_first(const char *preload);

/* Saves the variables that `proton` set, before they are removed. */
void inject_exec_keep(void);
/* The next program in this process records as the child of one that has exited. */
void inject_exec_detach(void);
