/*
 * Blocking of SIGXFSZ: the signal for a write or an allocation beyond the file size limit
 * (RLIMIT_FSIZE, `ulimit -f`). Its default action ends the program, which Proton must not do.
 * Between hold and release the calling thread only gets the error EFBIG. The program's handlers,
 * its dispositions and a signal that was already pending are unchanged.
 */
#ifndef BASE_SIZE_SIGNAL_H
#define BASE_SIZE_SIGNAL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct size_signal {
	sigset_t previous;
	bool was_pending;
};

void size_signal_hold(struct size_signal *held);
/* Keeps errno. */
void size_signal_release(const struct size_signal *held);

/* write() with the signal blocked. */
ssize_t size_signal_write(int fd, const void *bytes, size_t length);

#endif
