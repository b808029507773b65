/* Tables of a shared library's functions, bound at run time. */
#ifndef DRIVER_FUNCTIONS_H
#define DRIVER_FUNCTIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A function of a library, and its offset in a struct of pointers. */
struct function {
	const char *name;
	size_t offset;
	unsigned users; /* bits: who needs it */
};

/* A library that is loaded once per process; {.lock = PTHREAD_MUTEX_INITIALIZER}. */
struct functions_once {
	pthread_mutex_t lock;
	bool is_loaded;
};

/* Calls `load`, unless a call has succeeded before. */
int functions_load_once(struct functions_once *once, int (*load)(struct proton_error *err),
			struct proton_error *err);
/* Fills `table`, with NULL for a function that the library does not have. */
void functions_bind(void *library, const struct function *functions, size_t count, void *table);
/* The name of the first function that a user needs and the table lacks; NULL if it has all. */
const char *functions_missing(const struct function *functions, size_t count, const void *table,
			      unsigned users);

#endif
