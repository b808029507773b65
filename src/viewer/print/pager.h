/*
 * A pager for what people read: $PROTON_PAGER, $PAGER or less. It only shows: whatever happens to
 * it changes neither the exit status nor what is printed when there is none.
 */
#ifndef VIEWER_PRINT_PAGER_H
#define VIEWER_PRINT_PAGER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Shows text, if standard output is a terminal, and waits until the pager has ended. False if it
 * was not shown: there is no pager, none is needed because the text fits, or the pager has failed.
 */
bool pager_show(const char *text, size_t length);

#endif
