/*
 * Peak rates by architecture.
 *
 * Every figure is the dense rate (no sparsity) of the matrix units for 8-bit operands. Wider
 * operands are taken to run at that rate divided by width / 8, as Proton always did, so that
 * utilizations stay comparable with older reports: right for 16 bits on all parts below, TF32
 * rather than FP32 for 32 bits, and too optimistic for 64 bits on most parts.
 *
 * Two kinds of figure: a rate of the whole device, or operations per clock and multiprocessor, that
 * are multiplied with the clock and the number of multiprocessors the profile tells.
 */
#include "viewer/peaks.h"

#include <string.h>
#include <strings.h>

#include "base/array.h"

const unsigned peak_width_bits[PEAK_WIDTHS] = {8, 16, 32, 64};

struct arch {
	const char *type;      /* device type */
	const char *name;      /* architecture, as the profile tells it */
	double flop_per_s;     /* 8-bit, whole device; 0: the next one counts */
	double flop_per_clock; /* 8-bit, per clock and multiprocessor (compute unit) */
	double byte_per_s;     /* 0: from memory clock and bus width */
};

/*
 * H100 PCIe: 1513 Tflop/s of FP8 with 114 multiprocessors at 1755 MHz. NVIDIA's own figures do not
 * quite make a round number per clock, and the quotient keeps that.
 */
#define H100_FLOP_PER_CLOCK (1513e12 / (114.0 * 1755e6))

static const struct arch archs[] = {
	/* NVIDIA A100 datasheet: INT8 tensor core, 624 Top/s. */
	{"CUDA", "80", 624e12, 0, 0},
	/* NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090: FP8 with FP32 accumulation,
	 * 330.3 Tflop/s. */
	{"CUDA", "89", 330.3e12, 0, 0},
	/* NVIDIA H100 datasheet, PCIe column: FP8, 3026 Tflop/s with sparsity, half without. */
	{"CUDA", "90", 0, H100_FLOP_PER_CLOCK, 0},
	/* NVIDIA B200: 16384 FP8 operations per clock and multiprocessor (9 Pflop/s sparse
	 * for 148 at 1.85 GHz, NVIDIA Blackwell datasheet, half without sparsity). */
	{"CUDA", "100", 0, 16384, 0},
	/*
	 * AMD CDNA 2 whitepaper: INT8, 1024 per clock and CU. AMD Instinct MI250X datasheet: 3.2
	 * TB/s for the whole card of two devices.
	 */
	{"HIP", "gfx90a", 0, 1024, 3.2e12},
	/* AMD CDNA 3 whitepaper: FP8, 4096 per clock and CU; MI300X: 5.3 TB/s. */
	{"HIP", "gfx942", 0, 4096, 5.3e12},
	/* AMD CDNA 4 whitepaper: FP8, 8192 per clock and CU; MI350X and MI355X: 8 TB/s. */
	{"HIP", "gfx950", 0, 8192, 8.0e12},
};

/* "gfx942:sramecc+:xnack-" is a gfx942. */
static bool is_arch(const struct arch *arch, const char *type, const char *name)
{
	size_t length = strcspn(name, ":");

	return strcasecmp(arch->type, type) == 0 && strlen(arch->name) == length &&
	       memcmp(arch->name, name, length) == 0;
}

static double memory_byte_per_s(const struct profile_device *device)
{
	/* Two transfers a clock; bits to bytes. */
	return 2.0 * (double)device->bus_width_bits * (double)device->memory_clock_khz * 1e3 / 8.0;
}

bool peaks_find(const struct profile *profile, const struct profile_device *device,
		struct peaks *peaks_out)
{
	const char *type = profile_text(profile, device->type);
	const char *name = profile_text(profile, device->arch);

	for (size_t i = 0; i < ARRAY_LENGTH(archs); i++) {
		const struct arch *arch = &archs[i];
		double rate = arch->flop_per_s;

		if (!is_arch(arch, type, name))
			continue;
		if (rate == 0)
			rate = arch->flop_per_clock * (double)device->processors *
			       (double)device->clock_khz * 1e3;
		for (size_t w = 0; w < PEAK_WIDTHS; w++)
			peaks_out->flop_per_s[w] = rate * 8 / peak_width_bits[w];
		peaks_out->byte_per_s = arch->byte_per_s > 0 ? arch->byte_per_s
							     : memory_byte_per_s(device);
		return true;
	}
	return false;
}
