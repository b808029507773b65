/*
 * Limits on the number of names in a process: an unlimited number of scopes, kernels, metrics and
 * texts (a service that names its scopes after requests) must not take unlimited memory. Names
 * above a limit are recorded as "(other)" and counted.
 */
#ifndef RECORD_NAMES_NAME_LIMITS_H
#define RECORD_NAMES_NAME_LIMITS_H

#include <stdint.h>

#define LIMITS_OTHER "(other)"
#define LIMITS_METRICS 16384u /* metric names */
#define LIMITS_TEXTS 65536u   /* different values of text metrics */
#define LIMITS_TEXT_BYTES (16ull << 20)

struct limits {
	uint32_t children;   /* per context; PROTON_MAX_CHILDREN */
	uint32_t contexts;   /* per process; PROTON_MAX_CONTEXTS */
	uint32_t names;      /* per process; PROTON_MAX_NAMES */
	uint64_t name_bytes; /* total size of all these strings */
};

/* Reads the environment, once, before the first frame is made. */
void name_limits_read(void);
const struct limits *name_limits_get(void);

/* Counts of the process, for all sessions together; a store takes those since its beginning. */
enum limits_count {
	LIMITS_FOLDED,  /* names that were recorded as "(other)", or could not be recorded */
	LIMITS_LOST,    /* data lost for lack of memory or address space */
	LIMITS_ORIGINS, /* launches of COUNTER_ORIGIN_UNKNOWN */
	LIMITS_COUNTS
};

/* From any thread. */
void name_limits_count(enum limits_count count);
uint64_t name_limits_counted(enum limits_count count);
/* Counts LIMITS_LOST, and prints one line. */
void name_limits_lose(void);

#endif
