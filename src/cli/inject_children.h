/*
 * Processes that a program started by `proton -- program` starts itself, with the recorder in them:
 * each writes BASE.PID, and leaves its summary in a file that the first process reads at its end.
 * If one process alone recorded something, the first being a wrapper (env, sh, timeout), its files
 * get the name that was asked for.
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

/*
 * This process writes BASE.PART. False if the process `root` has ended, or the summary cannot be
 * left.
 */
bool children_report(const char *base, pid_t root, const char *part, const char *summary);

/* What has been left for this process. */
void children_gather(const char *base, struct children *children);

/* Renames the files BASE.PART.* of the first to BASE.*, and in the summary. */
void children_take_name(const char *base, struct children *children);

#endif
