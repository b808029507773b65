/* Memory allocation for a command: on failure, prints a message and exits with status 2. */
#pragma once

#include "base/array.h"

#define EXIT_CUT 1 /* only a part of the input could be shown */
#define EXIT_BAD 2 /* a message was printed */

/* Keeps freed memory for the next profile: the kernel would clear the same pages again. */
void xkeep_memory(void);
/* Called instead of ending the program; must not return. For programs that are not a command. */
void xalloc_set_give_up(void (*function)(void));
/* Prints "out of memory" and exits. */
_Noreturn void xgive_up(void);
/* `count` zeroed elements; never NULL. Release with free(). */
void *xcalloc(size_t count, size_t element_bytes);
/* A copy of `length` bytes, terminated by NUL. */
char *xstrndup(const char *text, size_t length);
char *xstrdup(const char *text);
/* asprintf() that cannot fail. */
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* array_reserve() that cannot fail. */
void xreserve(void *data, size_t *capacity, size_t count, size_t element_bytes);
/* Adds an element, the last argument. */
#define XADD(data, count, ...) (ARRAY_ADD(data, count, __VA_ARGS__) ? (void)0 : xgive_up())
