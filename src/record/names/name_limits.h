/*
 * Limits of what a process may name: scopes, kernels, metrics and texts that come without end (a
 * service that names its scopes after requests) must not take memory without end. What is beyond a
 * limit is recorded as "(other)" and counted.
 */
#ifndef RECORD_NAMES_NAME_LIMITS_H
#define RECORD_NAMES_NAME_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define LIMITS_OTHER "(other)"
#define LIMITS_METRICS 16384u /* names of metrics */
#define LIMITS_TEXTS 65536u   /* different values of metrics that are texts */
#define LIMITS_TEXT_BYTES (16ull << 20)

struct limits {
	uint32_t children;   /* of one context; PROTON_MAX_CHILDREN */
	uint32_t contexts;   /* of the process; PROTON_MAX_CONTEXTS */
	uint32_t names;      /* likewise; PROTON_MAX_NAMES */
	uint64_t name_bytes; /* of the strings of all of these */
};

/* From the environment, once, before the first frame is made. */
void limits_read(void);
const struct limits *limits_get(void);

/* Something was recorded as "(other)", or could not be for its name. From any thread. */
void limits_fold(void);
/* How often, since the process began; the stores count from there. */
uint64_t limits_folded(void);

#endif
