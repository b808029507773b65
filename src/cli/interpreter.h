/* Selection of the Python interpreter for the target. */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct interpreter {
	char path[PATH_MAX];       /* path to execute */
	char executable[PATH_MAX]; /* its sys.executable */
	char package[PATH_MAX];    /* directory of triton_proton in it */
};

/*
 * Finds a Python with triton_proton: only $PROTON_PYTHON if set; else those next to this executable
 * (a virtual environment's bin), then those on $PATH. A `module` must be installed too; "": none is
 * needed. False if there is none, after a message on standard error that names the interpreters
 * tried.
 */
bool interpreter_find(const char *module, struct interpreter *found);
/* The interpreter of the user's command, a path or a name on $PATH. */
bool interpreter_use(const char *name, struct interpreter *found);
