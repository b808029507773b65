/* Turning this process into the target. Both return only on failure, after one sentence. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "cli/proton_options.h"

/* A script or module, in Python. */
void launch_python(const struct options *options);

/*
 * Any program, with libproton_inject.so loaded into it. `library_directory` is where the build
 * installs that library, if it is known; NULL otherwise.
 */
void launch_program(const struct options *options, const char *library_directory);

#endif
