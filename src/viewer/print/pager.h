/*
 * Pager for output on a terminal: $PROTON_PAGER, $PAGER or less. A failing pager changes neither
 * the exit status nor the output.
 */
#ifndef VIEWER_PRINT_PAGER_H
#define VIEWER_PRINT_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Shows text if standard output is a terminal, and waits for the pager to exit. False if the text
 * was not shown: there is no pager, the text fits on the screen, or the pager failed.
 */
bool pager_show(const char *text, size_t length);

#endif
