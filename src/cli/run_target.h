/*
 * Execution of the target in place of this process. Both functions return only on failure, after a
 * message.
 */
#ifndef CLI_RUN_TARGET_H
#define CLI_RUN_TARGET_H

#include "cli/proton_options.h"

/* A module of the package, without the recorder. */
void launch_tool(const struct options *options);
/* A script or module, in Python. */
void launch_python(const struct options *options);

/*
 * Any program, with libproton_inject.so loaded into it. `library_directory` is where the build
 * installs that library; NULL if unknown.
 */
void launch_program(const struct options *options, const char *library_directory);

#endif
