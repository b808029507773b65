/*
 * What the program is doing, once it has taken more than a second, as one line of standard error
 * that is replaced every second and removed at the end. Only on a terminal.
 */
#ifndef VIEWER_PRINT_PROGRESS_H
#define VIEWER_PRINT_PROGRESS_H

/* "reading", and a name from the command line. Ends what was going on before. */
void progress_begin(const char *verb, const char *name);
void progress_end(void);

#endif
