/* Process-wide names of user metrics: each is parsed once, and then is a small integer. */
#ifndef RECORD_NAMES_METRIC_NAMES_H
#define RECORD_NAMES_METRIC_NAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define METRIC_NAME_NONE UINT32_MAX

struct metric_name {
	uint32_t text;  /* frames_string() of the name without suffix */
	uint32_t flags; /* enum metric_flag */
};

extern pthread_mutex_t metric_names_lock; /* for fork() */

/*
 * Removes "(exc)", "(pty)" and "(inc)" at the end of a name, with the preceding blanks; they become
 * flags. METRIC_NAME_NONE, counted as lost, above LIMITS_METRICS and if out of memory.
 */
uint32_t metric_names_add(const char *name);
struct metric_name metric_names_get(uint32_t id);
/* False for an id that metric_names_add() has not returned. */
bool metric_names_exists(uint32_t id);

#endif
