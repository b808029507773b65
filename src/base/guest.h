/* Being a guest in a program that is not Proton's own: its threads, descriptors and signals. */
#pragma once

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * ThreadSanitizer expects that threads share their descriptors, takes a process with shared memory
 * for the thread that waits for it, and refuses mappings outside of its ranges.
 */
#if defined(__SANITIZE_THREAD__)
#define HAS_THREAD_SANITIZER true
#else
#define HAS_THREAD_SANITIZER false
#endif

/*
 * pthread_create() with all signals blocked on the new thread: the program has to handle its own
 * signals on its own threads. 0, or an error number.
 */
int own_thread_start(pthread_t *thread_out, void *(*run)(void *), void *data);

/*
 * Runs `job(data)` in a process that has the memory of this one and a copy of its descriptors,
 * while the calling thread waits; no signal handler runs in the meantime. The job may make system
 * calls and change memory, and must not take a lock. False if there can be no such process.
 */
bool own_descriptors_run(void (*job)(void *data), void *data);

/*
 * Opens standard streams of a command that are closed: else the next file that is opened gets the
 * number of one, and messages go into an output, or the end of a pipe is replaced. Reads and writes
 * there fail, and an executed program finds them closed.
 */
void standard_occupy(void);

/* The file under a number from `min` on, closed on exec; `fd` if it has one, or none is free. */
int descriptor_move(int fd, int min);

/*
 * Blocking of SIGXFSZ: the signal for a write or an allocation beyond the file size limit
 * (RLIMIT_FSIZE, `ulimit -f`). Its default action ends the program, which Proton must not do.
 * Between hold and release the calling thread only gets the error EFBIG. The program's handlers,
 * its dispositions and a signal that was already pending are unchanged.
 */
struct size_signal {
	sigset_t previous;
	bool was_pending;
};

void size_signal_hold(struct size_signal *held);
/* Keeps errno. */
void size_signal_release(const struct size_signal *held);

/* write() with the signal blocked. */
ssize_t size_signal_write(int fd, const void *bytes, size_t length);
