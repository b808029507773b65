/* Texts about a GPU backend in the profile. */
#include "backend/gpu/records.h"

#include <inttypes.h>
#include <stdio.h>

#include "backend/gpu/launches.h"

void gpu_describe_number(backend_add_fn add, void *user, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	add(user, key, text);
}

void gpu_describe_overhead(backend_add_fn add, void *user)
{
	gpu_describe_number(add, user, "overhead_callbacks_ns", launches_cost_ns());
	gpu_describe_number(add, user, "overhead_records_ns", await_records_cost_ns());
}
