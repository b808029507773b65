/*
 * Environment of an injected program: reads and removes the variables that `proton` set
 * (handover.h). They are removed in place, because programs such as bash read the array that main()
 * was given, and define their own getenv() and unsetenv(), which do not work yet.
 */
#ifndef CLI_INJECT_ENVIRONMENT_H
#define CLI_INJECT_ENVIRONMENT_H

#include <stdbool.h>
#include <sys/types.h>

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
void inject_options_fini(struct inject_options *options);

/* Removes this library from LD_PRELOAD. False if it was not there. */
bool inject_environment_leave_preload(void);
/* True if the process will load this library when it initializes CUDA or HIP. */
bool inject_environment_is_for_driver(void);
/* True if the program or a library linked to it uses libproton. */
bool inject_environment_is_needed(void);
/* Removes all variables that `proton` set. */
void inject_environment_clear(void);

#endif
