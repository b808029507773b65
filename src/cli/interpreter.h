/* Selection of the Python interpreter for the target. */
#ifndef CLI_INTERPRETER_H
#define CLI_INTERPRETER_H

#include <stdbool.h>

struct interpreter {
	char *path;       /* path to execute */
	char *executable; /* its sys.executable */
	char *package;    /* directory of triton_proton in it */
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
void interpreter_fini(struct interpreter *interpreter);

/* Search for libproton_inject.so, the library that is loaded into programs (inject.c). */

/*
 * $PROTON_INJECT_LIB, else next to this executable, else in `library_directory` (where the build
 * installs it; NULL if unknown), else in the package of a Python that is found. The path, malloc'd;
 * NULL after a message on standard error if there is none.
 */
char *library_find(const char *library_directory);
/* The library in a Python package's directory; NULL without a message if there is none. */
char *library_find_in_package(const char *package);

#endif
