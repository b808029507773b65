/*
 * Signals that end the program (SIGTERM, SIGHUP, SIGINT), through libproton_inject.so. The program
 * sees and sets dispositions as if the recorder had none: its handlers are its own, and what it
 * leaves to the default action, or gives back to it, ends with a profile.
 */
#ifndef CLI_INJECT_SIGNALS_H
#define CLI_INJECT_SIGNALS_H

#include <signal.h>

/* Blocks the signals on this thread. */
void inject_signals_hold(sigset_t *previous);

/* Called with the session; `end` as in proton_at_signal(). */
void inject_signals_watch(void (*end)(void));

/* In `end`: what this thread sets are the real dispositions. */
void inject_signals_own_thread(void);

/*
 * A wrapper stays where the signal has interrupted it, as it would without a recorder: a shell
 * starts no further command. From now on it waits only for the default action, and not for long.
 */
void inject_signals_release(void);

/* If a signal has come, stays until it ends the process. */
void inject_signals_settle(void);

/*
 * Before another program takes over the process: a signal that has come ends this one. Later ones
 * take their default action at once.
 */
void inject_signals_leave(void);
/* It did not take over. */
void inject_signals_return(void);

#endif
