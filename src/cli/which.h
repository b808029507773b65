/*
 * `proton --which`: which programs the names `proton` and `proton-viewer` run. Triton's wheel
 * installs Python scripts of the same names; the package installed last owns them.
 */
#ifndef CLI_WHICH_H
#define CLI_WHICH_H

#include <stdbool.h>

/* Prints this program, its Python and package, and both names. False: no Python. */
bool which_print(void);

/*
 * Prints a line on standard error if one of the names is Triton's, on PATH or next to the Python.
 */
void which_note_others(void);

/* "proton-viewer", or the unique name if the plain one is Triton's. */
const char *which_viewer(void);

#endif
