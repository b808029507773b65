/* Finalizing on signals that end the program. */
#ifndef RECORD_SESSION_SIGNALS_H
#define RECORD_SESSION_SIGNALS_H

/*
 * Waits while an arrived signal is being handled: the profile is written, then the signal ends the
 * process. Returns only if there is no such signal, or if it did not end the process.
 */
void signals_wait_raised(void);

#endif
