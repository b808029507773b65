/*
 * Child processes of a program run by `proton -- program`: each writes BASE.PID and reports to the
 * first process, which reads the reports when it exits. If only one process recorded anything, and
 * the first one was a wrapper (env, sh, timeout), its files are renamed to the requested name.
 *
 * Reports are in memory that the first process shares as an unnamed file. Other processes find it
 * among the descriptors of the first one, so no file remains however a process ends.
 */
#ifndef CLI_INJECT_CHILDREN_H
#define CLI_INJECT_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

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
/*
 * This process has written BASE.PART. False if `root` has exited or has read the reports, or if the
 * program has closed the descriptor.
 */
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

#endif
