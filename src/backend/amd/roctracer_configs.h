/*
 * Launch configurations by correlation ID, from the launch until its record arrives: roctracer's
 * records do not have them.
 */
#ifndef BACKEND_AMD_ROCTRACER_CONFIGS_H
#define BACKEND_AMD_ROCTRACER_CONFIGS_H

#include <stdbool.h>

#include "format/rows.h"

/* As read from HIP's arguments, in few moves. */
struct roctracer_config {
	uint64_t sizes[3]; /* uint32_t grid[3], block[3] */
	uint32_t shared_bytes;
};

/* On the launching thread. */
void roctracer_configs_put(uint32_t correlation, const struct roctracer_config *config);
/* On the thread of the records. False if too many launches were in flight since. */
bool roctracer_configs_get(uint32_t correlation, struct launch_config *config_out);

#endif
