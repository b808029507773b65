/* Environment variables: the only place that reads one by its name. */
#ifndef BASE_ENVIRONMENT_H
#define BASE_ENVIRONMENT_H

#include <stdlib.h>

/*
 * NULL if the variable is not set, and in a process that runs with elevated privileges (setuid,
 * setgid, file capabilities): its caller must not choose code to load, files or limits there.
 *
 * It works before main() in shells too: they define a getenv() that does not yet.
 */
static inline char *environment_get(const char *name)
{
	return secure_getenv(name);
}

#endif
