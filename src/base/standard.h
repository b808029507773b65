/*
 * Standard input, output and error of the commands. One that is closed when a command starts would
 * be the next file that is opened: messages would then go into an output, or a pipe's end would be
 * replaced.
 */
#ifndef BASE_STANDARD_H
#define BASE_STANDARD_H

/*
 * Occupies those that are closed. Reading and writing there fails as before, and a program that is
 * executed finds them closed.
 */
void standard_occupy(void);

#endif
