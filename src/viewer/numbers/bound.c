/* The limit of a kernel. */
#include "viewer/numbers/bound.h"

#include <math.h>
#include <string.h>

/* A unit with at least this share of its peak is the limit: few kernels reach more than 0.9. */
#define SHARE_MIN 0.5
/* A launch takes so long on the CPU, and a kernel 2 us at least. */
#define LAUNCH_S 5e-6
#define WIDTH_32 3u
#define WIDTH_64 4u

const char *const bound_words[BOUND_COUNT] = {"tensor", "vector",  "memory",
					      "l2",     "latency", "launch"};

/*
 * Peak of single precision without tensor cores: lanes of an SM, of two operations each (NVIDIA's
 * whitepapers of Volta to Blackwell).
 */
static double vector_peak(const struct util *util, uint32_t node)
{
	const struct profile_kernel *kernels = util->profile->kernels;
	const struct row_device *device =
		&util->profile->devices[kernels[util->profile->nodes[node].first_kernel].device];
	const char *arch = profile_text(util->profile, device->arch);
	bool is_older = strcmp(arch, "70") == 0 || strcmp(arch, "75") == 0 ||
			strcmp(arch, "80") == 0;

	return (is_older ? 64 : 128) * 2.0 * (double)device->processors *
	       (double)device->clock_khz * 1e3;
}

static double l2_peak(const struct util *util, uint32_t node)
{
	const struct profile_kernel *kernels = util->profile->kernels;
	uint32_t device = kernels[util->profile->nodes[node].first_kernel].device;

	return util->l2_bytes_per_clock * (double)util->profile->devices[device].clock_khz * 1e3;
}

static double share_of(double amount, double peak_per_s, double seconds)
{
	double share = amount / peak_per_s / seconds;

	return isfinite(share) ? share : 0;
}

bool bound_shares_of_node(const struct util *util, uint32_t node, struct bound_shares *out)
{
	struct util_work work;
	double flops = 0;

	*out = (struct bound_shares){{0}};
	util_work_of_node(util, node, &work);
	if (work.seconds <= 0 || isnan(util_peak(util, node, 0)))
		return false;
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		flops += work.flops[w];
	if (work.is_counted && work.tensor_flops == 0) {
		out->of[BOUND_VECTOR] =
			share_of(work.flops[WIDTH_32], vector_peak(util, node), work.seconds) +
			share_of(work.flops[WIDTH_64], util_peak(util, node, WIDTH_64),
				 work.seconds);
	} else {
		double share = util_min_flop_time_s(util, node) / work.seconds;

		out->of[BOUND_TENSOR] = isfinite(share) ? share : 0;
	}
	out->of[BOUND_MEMORY] =
		share_of(work.bytes, util_peak(util, node, PEAK_WIDTHS), work.seconds);
	if (util->l2_bytes_per_clock > 0)
		out->of[BOUND_L2] = share_of(work.l2_bytes, l2_peak(util, node), work.seconds);
	return work.is_counted || flops > 0 || work.bytes > 0;
}

enum bound bound_of_node(const struct util *util, uint32_t node)
{
	enum bound max = BOUND_TENSOR;
	struct bound_shares shares;
	struct util_work work;

	if (!bound_shares_of_node(util, node, &shares))
		return BOUND_COUNT;
	util_work_of_node(util, node, &work);
	for (enum bound unit = 0; unit < BOUND_LATENCY; unit++)
		if (shares.of[unit] > shares.of[max])
			max = unit;
	if (shares.of[max] >= SHARE_MIN)
		return max;
	return work.seconds / work.launches < LAUNCH_S ? BOUND_LAUNCH : BOUND_LATENCY;
}
