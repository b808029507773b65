/* After fork() the child has no sessions: it records nothing until it starts one of its own. */
#ifndef RECORD_SESSION_FORK_H
#define RECORD_SESSION_FORK_H

/* Registers the handlers below, once, with the first start. */
void fork_guard_install(void);

/* The parts of it, each beside the locks it takes. Called in this order, released in reverse. */
void session_fork_prepare(void);
void session_fork_parent(void);
void session_fork_child(void);
void adding_fork_prepare(void); /* by session_fork_prepare(): between its locks */
void adding_fork_parent(void);
void adding_fork_child(void);
void backend_use_fork_prepare(void);
void backend_use_fork_parent(void);
void backend_use_fork_child(void);
void metric_names_fork_prepare(void);
void metric_names_fork_parent(void);
void metric_names_fork_child(void);
void frames_fork_prepare_reuse(void); /* by session_fork_prepare(): before sessions */
void frames_fork_prepare(void);
void frames_fork_parent(void);
void frames_fork_child(void);
void devices_fork_prepare(void);
void devices_fork_parent(void);
void devices_fork_child(void);
void thread_fork_child(void); /* also trace_events.h's part */

#endif
