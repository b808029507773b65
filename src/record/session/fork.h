/*
 * fork() handlers. After fork() the child has no sessions: it records nothing until it starts one.
 */
#ifndef RECORD_SESSION_FORK_H
#define RECORD_SESSION_FORK_H

/* Registers the handlers below, once, at the first start. */
void fork_guard_install(void);

/*
 * Handlers of each component, defined next to its locks. Called in this order, released in reverse.
 */
void session_fork_prepare(void);
void session_fork_parent(void);
void session_fork_child(void);
void adding_fork_prepare(void); /* called by session_fork_prepare(), between its locks */
void adding_fork_parent(void);
void adding_fork_child(void);
void backend_use_fork_prepare(void);
void backend_use_fork_parent(void);
void backend_use_fork_child(void);
void metric_names_fork_prepare(void);
void metric_names_fork_parent(void);
void metric_names_fork_child(void);
void frames_fork_prepare_reuse(void); /* called by session_fork_prepare(), before sessions */
void frames_fork_prepare(void);
void frames_fork_parent(void);
void frames_fork_child(void);
void devices_fork_prepare(void);
void devices_fork_parent(void);
void devices_fork_child(void);
void thread_fork_child(void); /* also calls trace_fork_child() */

#endif
