/* Set of contexts with launches (on AMD: devices): a flush waits for them. */
#ifndef BACKEND_GPU_CONTEXTS_H
#define BACKEND_GPU_CONTEXTS_H

#include <stdbool.h>

/* On the launching thread, at every launch. */
void contexts_note(void *context);
/* Removes a context that is about to be destroyed. */
void contexts_forget(const void *context);
void contexts_clear(void);
/*
 * Waits for all of them, each by `synchronize`. False if one could not be waited for: its work may
 * never end.
 */
bool contexts_synchronize(bool (*synchronize)(void *context));

#endif
