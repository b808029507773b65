/*
 * Launch configuration as a text metric, written as in CUDA C. A kernel with several configurations
 * shows the one with the longest total time, and the number of others.
 */
#include "viewer/print/config_text.h"

#include <inttypes.h>

/* "8", "(8,2)" or "(8,1,2)": trailing dimensions of 1 are omitted. */
static void write_dimensions(struct out *out, const uint32_t size[3])
{
	if (size[1] <= 1 && size[2] <= 1)
		out_u64(out, size[0]);
	else if (size[2] <= 1)
		out_printf(out, "(%" PRIu32 ",%" PRIu32 ")", size[0], size[1]);
	else
		out_printf(out, "(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")", size[0], size[1], size[2]);
}

static void write_config(struct out *out, const struct launch_config *config)
{
	uint64_t shared = (uint64_t)config->static_shared_bytes + config->dynamic_shared_bytes;

	out_text(out, "<<<");
	write_dimensions(out, config->grid);
	out_byte(out, ',');
	write_dimensions(out, config->block);
	out_printf(out, ">>> %" PRIu32 " regs", config->registers_per_thread);
	if (shared >= 1024 * 1024)
		out_printf(out, " %.4g MiB shared", (double)shared / (1024 * 1024));
	else if (shared >= 1024)
		out_printf(out, " %.4g KiB shared", (double)shared / 1024);
	else if (shared)
		out_printf(out, " %" PRIu64 " B shared", shared);
}

void config_text_write(struct out *out, const struct profile *profile, uint32_t node)
{
	const struct profile_kernel *kernels = profile->kernels;
	const struct profile_config *longest = NULL;
	uint64_t all = 0;
	bool has_others = false;

	for (uint32_t k = profile->nodes[node].first_kernel; k; k = kernels[k].next) {
		for (uint32_t c = kernels[k].first_config; c; c = profile->configs[c].next) {
			const struct profile_config *config = &profile->configs[c];

			all++;
			if (config->flags & CONFIG_OTHER)
				has_others = true;
			else if (!longest || config->total_ns > longest->total_ns)
				longest = config;
		}
	}
	if (!longest)
		return;
	write_config(out, &longest->config);
	if (all > 1)
		out_printf(out, " +%" PRIu64 "%s", all - 1, has_others ? " or more" : "");
}
