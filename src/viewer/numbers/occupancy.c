/*
 * Occupancy from a launch configuration, with the limits of the table "Technical Specifications
 * per Compute Capability" of the CUDA C++ Programming Guide.
 */
#include "viewer/numbers/occupancy.h"

#include <string.h>

#include "base/array.h"

#define WARP_THREADS 32u
#define REGISTERS 65536u
#define REGISTERS_OF_WARP 256u /* registers are given out in such portions */
#define WARPS_TOGETHER 4u      /* and to as many warps at once */
#define SHARED_PORTION 128u
#define SHARED_OF_SYSTEM 1024u /* per CTA, from compute capability 8.0 on */

struct limits {
	const char *arch;
	uint32_t threads;
	uint32_t ctas;
	uint32_t shared_kib;
};

static const struct limits table[] = {
	{"70", 2048, 32, 96},   {"75", 1024, 16, 64},   {"80", 2048, 32, 164},
	{"86", 1536, 16, 100},  {"87", 1536, 16, 164},  {"89", 1536, 24, 100},
	{"90", 2048, 32, 228},  {"100", 2048, 32, 228}, {"103", 2048, 32, 228},
	{"110", 1536, 24, 228}, {"120", 1536, 24, 100}, {"121", 1536, 24, 100},
};

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t ctas_by_registers(const struct launch_config *config, uint64_t warps)
{
	uint64_t each =
		round_up((uint64_t)config->registers_per_thread * WARP_THREADS, REGISTERS_OF_WARP);

	return each ? REGISTERS / each / WARPS_TOGETHER * WARPS_TOGETHER / warps : UINT64_MAX;
}

static uint64_t ctas_by_shared(const struct launch_config *config, const struct limits *limits)
{
	uint64_t bytes = shared_bytes_of(config);

	if (limits->shared_kib > 96)
		bytes += SHARED_OF_SYSTEM;
	return bytes ? (uint64_t)limits->shared_kib * 1024 / round_up(bytes, SHARED_PORTION)
		     : UINT64_MAX;
}

bool occupancy_of(const char *arch, const struct launch_config *config, struct occupancy *out)
{
	uint64_t threads = (uint64_t)config->block[0] * config->block[1] * config->block[2];
	uint64_t warps = round_up(threads, WARP_THREADS) / WARP_THREADS;

	for (size_t i = 0; i < ARRAY_LENGTH(table); i++) {
		const struct limits *limits = &table[i];
		uint64_t registers, shared, ctas;

		if (strcmp(arch, limits->arch) != 0 || !threads || threads > limits->threads)
			continue;
		registers = ctas_by_registers(config, warps);
		shared = ctas_by_shared(config, limits);
		ctas = limits->threads / (warps * WARP_THREADS);
		ctas = ctas < limits->ctas ? ctas : limits->ctas;
		*out = (struct occupancy){0};
		if (registers < ctas && registers <= shared)
			out->limit = "registers";
		else if (shared < ctas)
			out->limit = "shared memory";
		ctas = registers < ctas ? registers : ctas;
		out->ctas = (uint32_t)(shared < ctas ? shared : ctas);
		out->share = (double)(out->ctas * warps * WARP_THREADS) / limits->threads;
		return out->ctas > 0;
	}
	return false;
}
