/*
 * Which program the names `proton` and `proton-viewer` run. Triton's wheel installs Python scripts
 * of the same names for its own profiler; the package that was installed last has them.
 */
#ifndef CLI_WHICH_H
#define CLI_WHICH_H

#include <stdbool.h>

/* `proton --which`: this program, its Python and package, and both names. False: no Python. */
bool which_print(void);

/* One line on standard error if one of the names is Triton's, on PATH or next to the Python. */
void which_note_others(void);

/* "proton-viewer", or the name that is ours alone where that one is Triton's. */
const char *which_viewer(void);

#endif
