/*
 * Signal handling of libproton_inject.so for signals that end the program (SIGTERM, SIGHUP,
 * SIGINT). The program sees and sets dispositions as if there were no recorder: its handlers work,
 * and signals with the default action end it with a profile.
 */
#ifndef CLI_INJECT_SIGNALS_H
#define CLI_INJECT_SIGNALS_H

#include <signal.h>

/* Blocks the signals on this thread. */
void inject_signals_hold(sigset_t *previous);

/* Called with the session; `end` as in proton_at_signal(). */
void inject_signals_watch(void (*end)(void));

/* In `end`: dispositions set by this thread are the real ones. */
void inject_signals_own_thread(void);

/*
 * A wrapper stays where the signal interrupted it, as without a recorder: a shell starts no further
 * command. From now on it waits only for the default action, and only briefly.
 */
void inject_signals_release(void);

/* If a signal is pending, waits until it ends the process. */
void inject_signals_settle(void);

/*
 * Before another program replaces this one: a pending signal ends this one. Later ones take their
 * default action at once.
 */
void inject_signals_leave(void);
/* The replacement failed. */
void inject_signals_return(void);

#endif
