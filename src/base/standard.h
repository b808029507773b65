/*
 * Standard streams of the commands. If one is closed when a command starts, the next file that is
 * opened gets its number: messages would then go into an output, or the end of a pipe would be
 * replaced.
 */
#ifndef BASE_STANDARD_H
#define BASE_STANDARD_H

/*
 * Opens closed streams. Reads and writes there still fail, and an executed program finds them
 * closed.
 */
void standard_occupy(void);

#endif
