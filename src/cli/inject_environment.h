/*
 * The environment of a program that the recorder entered: what `proton` left there (handover.h),
 * read and taken out again. Edited in place and by hand: programs such as bash read the array
 * that main() was given, and have a getenv() and unsetenv() of their own that do not work yet.
 */
#ifndef CLI_INJECT_ENVIRONMENT_H
#define CLI_INJECT_ENVIRONMENT_H

#include <stdbool.h>
#include <sys/types.h>

/* Copies; NULL for what was not given. */
struct inject_options {
	char *quiet; /* "0" or "1" */
	char *name;
	char *backend;
	char *context;
	char *mode;
	char *data;
	char *format;
	char *memory;     /* "1" */
	char *viewer;     /* what to call proton-viewer */
	char *children;   /* base of their names; NULL: they are not recorded */
	pid_t target;     /* the process that was asked for; 0: any that reads this */
	bool is_gathered; /* children report to the target */
	bool is_followed; /* the variables are to stay, for the driver's sake */
};

/* False, with nothing to free, if this process was not started by `proton`. */
bool inject_environment_read(struct inject_options *options);
void inject_options_fini(struct inject_options *options);

/* Takes this library out of LD_PRELOAD. False if it did not come that way. */
bool inject_environment_leave_preload(void);
/* True if the driver will load this library when the process initialises CUDA. */
bool inject_environment_is_for_driver(void);
/* True if the program or a library that it was linked with uses libproton. */
bool inject_environment_is_needed(void);
/* Takes out everything that `proton` left. */
void inject_environment_clear(void);

#endif
