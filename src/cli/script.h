/*
 * What the first word after the options is: a Python script, an interpreter, or something else that
 * `proton` runs only when it is asked for in another way.
 */
#ifndef CLI_SCRIPT_H
#define CLI_SCRIPT_H

#include <stdbool.h>

#include "cli/proton_options.h"

/*
 * True if Python can run the target. A Python interpreter (`proton python x.py`) becomes
 * TARGET_PYTHON. Otherwise false, after one line with the command to type instead.
 */
bool script_check(struct options *options);

/* False, and one line, if the mode is the name of a module: `proton -m json.tool`. */
bool script_check_mode(const struct options *options);

#endif
