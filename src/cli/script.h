/*
 * Kind of the target: a Python script, an interpreter, or a program that needs another command
 * line.
 */
#ifndef CLI_SCRIPT_H
#define CLI_SCRIPT_H

#include <stdbool.h>

#include "cli/proton_options.h"

/*
 * True if Python can run the target. A Python interpreter (`proton python x.py`) becomes
 * TARGET_PYTHON. Otherwise false, after a message with the command to use.
 */
bool script_check(struct options *options);

/* False after a message if the mode is the name of a module: `proton -m json.tool`. */
bool script_check_mode(const struct options *options);

#endif
