/*
 * Processes that a program started by `proton -- program` starts itself, with the recorder in them:
 * each writes BASE.PID and reports to the first process, which reads the reports at its end. If one
 * process alone recorded something, the first being a wrapper (env, sh, timeout), its files get the
 * name that was asked for.
 *
 * Reports are in memory that the first process shares as an unnamed file. Other processes find it
 * among the descriptors of the first one, so no file stays however a process ends.
 */
#ifndef CLI_INJECT_CHILDREN_H
#define CLI_INJECT_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct children {
	size_t count;       /* how many recorded something */
	char first[64];     /* the one that ended first: what its name has after BASE. */
	char summary[1024]; /* of that one */
};

/* The first process: from now on others can report to it. */
void children_invite(void);

/* This process records, and `root` is the first one. */
void children_enter(pid_t root);
/* It has begun to write its profile: `root` waits for it longer. */
void children_end_begins(void);
/*
 * It has written BASE.PART. False if `root` has ended or has read the reports, or if the program
 * has closed its descriptor.
 */
bool children_report(pid_t root, const char *part, const char *summary);
/* It does not record any more. */
void children_leave(void);

/*
 * The first process, at its end: waits up to seconds for processes that write their profiles. If a
 * signal has ended this one, it may be about to end the others, too: they get half a second, and no
 * more, because it may not have been for them. Takes no locks and allocates nothing.
 */
void children_wait(bool is_by_signal);
/* The reports so far; later ones are refused. */
void children_gather(struct children *children);

/* Renames the files BASE.PART.* of the first to BASE.*, and in the summary. */
void children_take_name(const char *base, struct children *children);

#endif
