/* Search for a vendor's shared library in places, and what was searched, for the error message. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct library_search {
	const char *const *names; /* in order of preference; NULL after the last */
	int flags;                /* of dlopen(), in addition */
	char *file_out;           /* not NULL: loads nothing, receives the path; PATH_MAX */
	void *handle;             /* NULL: not found */
	bool is_found;            /* a file, if nothing is loaded */
	char tried[640];          /* the places */
	char reason[320];         /* why a file that exists could not be loaded */
};

/* Notes a place that was searched. */
void library_search_note(struct library_search *search, const char *what);
/* Each is true if the library was found there. */
bool library_search_file(struct library_search *search, const char *path);
bool library_search_directory(struct library_search *search, const char *directory);
bool library_search_below(struct library_search *search, const char *root, const char *below);
/* The loader's search path; `flags`: RTLD_NOLOAD for the copy that the process has. */
bool library_search_loader(struct library_search *search, int flags);
/* A path that a variable names. True if it is set: then no other copy is tried. */
bool library_search_named(struct library_search *search, const char *variable);

/* The value of a variable; NULL if it is not set, or empty. */
const char *library_search_value(const char *variable);
/* The length of the path of the site-packages that a file is in; 0: it is in none. */
size_t library_search_packages(const char *path);

/* Tables of a shared library's functions, bound at run time. */

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
