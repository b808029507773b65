/* Which Python runs the target, and what it says about itself. */
#ifndef CLI_INTERPRETER_H
#define CLI_INTERPRETER_H

#include <stdbool.h>

struct interpreter {
	char *path;       /* what to execute */
	char *executable; /* its sys.executable */
	char *package;    /* directory of triton_proton in it */
};

/*
 * Finds a Python that has triton_proton: $PROTON_PYTHON alone if set; else the ones beside this
 * executable (a virtual environment's bin), then on $PATH. With `module`, that module must be there
 * as well. False, and one sentence on standard error that names what was tried, if there is none.
 */
bool interpreter_find(const char *module, struct interpreter *found);
/* That of the user's command, a path or a name on $PATH. */
bool interpreter_use(const char *name, struct interpreter *found);
void interpreter_fini(struct interpreter *interpreter);

#endif
