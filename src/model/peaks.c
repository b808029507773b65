/*
 * Peak rates by architecture.
 *
 * Every rate is dense (no sparsity), of the fastest units for operands of that width: matrix units
 * if available, else vector units. The first architectures in Proton (80, 89, 90, 100, gfx90a,
 * gfx942, gfx950) use the 8-bit rate divided by width / 8 for wider operands, to keep utilizations
 * comparable with older reports. That is right for 16 bits on most of them, means TF32 rather than
 * FP32 for 32 bits, and is too optimistic for 64 bits.
 *
 * A rate is either that of the whole device, or in operations per clock and multiprocessor (SM);
 * the latter is multiplied by the clock rate and the number of SMs in the profile.
 */
#include "model/peaks.h"

#include <libproton/proton.h>
#include <math.h>
#include <strings.h>

#include "base/array.h"
#include "base/err.h"

const unsigned peak_width_bits[PEAK_WIDTHS] = {4, 8, 16, 32, 64};
const char *const peak_width_metrics[PEAK_WIDTHS] = {"flops4", "flops8", "flops16", "flops32",
						     "flops64"};

struct arch {
	const char *type;          /* device type */
	const char *name;          /* architecture, as in the profile */
	bool is_of_device;         /* rates are per second; else per clock and SM or CU */
	double rates[PEAK_WIDTHS]; /* by width; NAN: not published */
	double byte_per_s;         /* 0: from memory clock and bus width */
};

/*
 * H100 PCIe: 1513 Tflop/s of FP8 with 114 SM at 1755 MHz. NVIDIA's numbers do not quite give a
 * round number per clock; the quotient keeps them.
 */
#define H100_FLOP_PER_CLOCK (1513e12 / (114.0 * 1755e6))

/* All widths from the 8-bit rate; 4 bits at twice the rate, or at the same rate. */
#define HALVING(rate)                                                                              \
	{                                                                                          \
		2 * (rate), rate, (rate) / 2, (rate) / 4, (rate) / 8                               \
	}
#define HALVING_FROM_8(rate)                                                                       \
	{                                                                                          \
		rate, rate, (rate) / 2, (rate) / 4, (rate) / 8                                     \
	}

static const struct arch archs[] = {
	/* NVIDIA V100 datasheet: FP16 tensor 125 Tflop/s, 80 SM at 1.53 GHz; no tensor cores for
	 * others: DP4A on 64 lanes, 64 FP32 and 32 FP64 lanes (Volta whitepaper). */
	{"CUDA", "70", false, {512, 512, 1024, 128, 64}, 0},
	/* NVIDIA T4 datasheet: 260, 130, 65, 8.1 Tflop/s with 40 SM at 1.59 GHz; 2 FP64 lanes
	 * (Turing whitepaper). */
	{"CUDA", "75", false, {4096, 2048, 1024, 128, 4}, 0},
	/* NVIDIA A100 datasheet: INT8 tensor core, 624 Top/s. */
	{"CUDA", "80", true, HALVING(624e12), 0},
	/* NVIDIA GA102 whitepaper, A40: INT4 599, INT8 299, FP16 150, TF32 75 (half of it with the
	 * GeForce RTX 3090) with 84 SM at 1.74 GHz; FP32 37.4 on 128 lanes is what both reach. */
	{"CUDA", "86", false, {4096, 2048, 1024, 256, 4}, 0},
	/* NVIDIA Jetson AGX Orin technical brief: INT8 85 Top/s dense with 16 SM at 1.3 GHz; the
	 * tensor cores of sm_80. */
	{"CUDA", "87", false, {8192, 4096, 2048, 1024, 4}, 0},
	/* NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090: FP8 with FP32 accumulation,
	 * 330.3 Tflop/s. */
	{"CUDA", "89", true, HALVING(330.3e12), 0},
	/* NVIDIA H100 datasheet, PCIe column: FP8, 3026 Tflop/s with sparsity, half without. No
	 * 4-bit tensor cores. */
	{"CUDA", "90", false, HALVING_FROM_8(H100_FLOP_PER_CLOCK), 0},
	/*
	 * NVIDIA B200: 16384 FP8 operations per clock and SM (9 Pflop/s sparse for 148 at 1.85 GHz,
	 * NVIDIA Blackwell datasheet, half without sparsity).
	 */
	{"CUDA", "100", false, HALVING(16384.0), 0},
	/* NVIDIA Blackwell Ultra, GB300: FP4 15 Pflop/s dense, FP8 5 with 160 SM at 1.92 GHz; FP64
	 * 1.3 Tflop/s. */
	{"CUDA", "103", false, {49152, 16384, 8192, 4096, 4}, 0},
	/* NVIDIA Jetson AGX Thor: FP4 1035 Tflop/s dense with 20 SM at 1.57 GHz, FP8 half of it. */
	{"CUDA", "110", false, {32768, 16384, 8192, 4096, 4}, 0},
	/* NVIDIA RTX Blackwell architecture whitepaper, GeForce RTX 5090: FP4 1676, FP8 838, FP16
	 * 419 (FP16 accumulation), TF32 and FP32 105 Tflop/s dense with 170 SM at 2.407 GHz; FP64
	 * 1/64 of FP32. */
	{"CUDA", "120", false, {4096, 2048, 1024, 256, 4}, 0},
	/* NVIDIA DGX Spark (GB10): FP4 1 Pflop/s sparse with 48 SM; the cores of sm_120. */
	{"CUDA", "121", false, {4096, 2048, 1024, 256, 4}, 0},
	/* AMD Instinct MI100 datasheet: INT8 and FP16 184.6, FP32 46.1 (matrix), FP64 11.5 Tflop/s
	 * with 120 CU at 1.502 GHz; 1.23 TB/s. */
	{"HIP", "gfx908", false, {1024, 1024, 1024, 256, 64}, 1.2288e12},
	/*
	 * AMD CDNA 2 whitepaper: INT8, 1024 per clock and CU. AMD Instinct MI250X datasheet: 3.2
	 * TB/s for the whole card of two devices.
	 */
	{"HIP", "gfx90a", false, HALVING_FROM_8(1024.0), 3.2e12},
	/* AMD CDNA 3 whitepaper: FP8, 4096 per clock and CU; MI300A and MI300X: 5.3 TB/s. The first
	 * two are their early steppings. */
	{"HIP", "gfx940", false, HALVING_FROM_8(4096.0), 5.3e12},
	{"HIP", "gfx941", false, HALVING_FROM_8(4096.0), 5.3e12},
	{"HIP", "gfx942", false, HALVING_FROM_8(4096.0), 5.3e12},
	/* AMD CDNA 4 whitepaper: FP8, 8192 per clock and CU, FP4 twice; MI350X and MI355X: 8 TB/s.
	 */
	{"HIP", "gfx950", false, HALVING(8192.0), 8.0e12},
	/* AMD RDNA 3 ISA and Radeon RX 7900 XTX data: FP16 and INT8 122.8, INT4 twice, FP32 61.4
	 * (dual issue), FP64 1.92 Tflop/s with 96 CU at 2.5 GHz; 960 GB/s. */
	{"HIP", "gfx1100", false, {1024, 512, 512, 256, 8}, 960e9},
	/* Radeon RX 7800 XT: the same per CU; 624 GB/s. */
	{"HIP", "gfx1101", false, {1024, 512, 512, 256, 8}, 624e9},
	/* AMD Radeon RX 9060 XT: INT4 410, FP8 205, FP16 103, FP32 25.6 dense with 32 CU at 3.13
	 * GHz; FP64 1/64 of FP32; 320 GB/s. */
	{"HIP", "gfx1200", false, {4096, 2048, 1024, 256, 4}, 320e9},
	/* AMD Radeon RX 9070 XT: INT4 779, FP8 389, FP16 195, FP32 48.7 with 64 CU at 2.97 GHz; 640
	 * GB/s. */
	{"HIP", "gfx1201", false, {4096, 2048, 1024, 256, 4}, 640e9},
	/* AMD Instinct MI455X (CDNA 5), announced at CES 2026: FP4 40, FP8 20 Pflop/s, 432 GB of
	 * HBM4 with 19.6 TB/s; FP16 at half the rate of FP8. Rates of FP32 and FP64 are not
	 * published. */
	{"HIP", "gfx1250", true, {40e15, 20e15, 10e15, NAN, NAN}, 19.6e12},
};

/* By type, in any case, and architecture without features: "gfx942:sramecc+" is a gfx942. */
static const struct arch *find_arch(const char *type, const char *name)
{
	size_t length = strcspn(name, ":");

	for (size_t i = 0; i < ARRAY_LENGTH(archs); i++)
		if (strcasecmp(archs[i].type, type) == 0 && strlen(archs[i].name) == length &&
		    memcmp(archs[i].name, name, length) == 0)
			return &archs[i];
	return NULL;
}

static double flop_per_s(const struct arch *arch, size_t width, double processors, double clock_khz)
{
	return arch->rates[width] * (arch->is_of_device ? 1 : processors * clock_khz * 1e3);
}

/* `arch` may be NULL. */
static double memory_byte_per_s(const struct arch *arch, double bus_width_bits,
				double memory_clock_khz)
{
	/* Two transfers a clock; bits to bytes. */
	return arch && arch->byte_per_s > 0 ? arch->byte_per_s
					    : 2.0 * bus_width_bits * memory_clock_khz * 1e3 / 8.0;
}

bool peaks_of_device(const struct profile *profile, const struct row_device *device,
		     struct peaks *peaks_out)
{
	const struct arch *arch =
		find_arch(profile_text(profile, device->type), profile_text(profile, device->arch));

	if (!arch)
		return false;
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		peaks_out->flop_per_s[w] =
			flop_per_s(arch, w, (double)device->processors, (double)device->clock_khz);
	peaks_out->byte_per_s = memory_byte_per_s(arch, (double)device->bus_width_bits,
						  (double)device->memory_clock_khz);
	return true;
}

/* ------------------------------------------------------------------ the public functions */

static int refuse_device(const char *type, const char *arch, struct proton_error *err)
{
	if (strcasecmp(type, "CUDA") != 0 && strcasecmp(type, "HIP") != 0)
		return err_set(err, PROTON_E_INVALID,
			       "Unsupported device type: %.100s (supported: CUDA, HIP)", type);
	return err_set(err, PROTON_E_INVALID,
		       "Unsupported architecture: %.100s is not in the table of peak rates of %s",
		       arch, type);
}

int proton_peak_flops(const char *device_type, const char *arch, unsigned width_bits,
		      double num_sms, double clock_khz, double *flops_per_second_out,
		      struct proton_error *err)
{
	if (!device_type || !arch || !flops_per_second_out)
		return err_set(err, PROTON_E_INVALID, "proton_peak_flops: a pointer is NULL");
	const struct arch *found = find_arch(device_type, arch);
	if (!found)
		return refuse_device(device_type, arch, err);
	for (size_t w = 0; w < PEAK_WIDTHS; w++) {
		if (peak_width_bits[w] != width_bits)
			continue;
		if (isnan(found->rates[w]))
			return err_set(err, PROTON_E_INVALID,
				       "Unsupported width: no peak rate of %s is published for "
				       "operands of %u bits",
				       found->name, width_bits);
		*flops_per_second_out = flop_per_s(found, w, num_sms, clock_khz);
		return PROTON_OK;
	}
	return err_set(err, PROTON_E_INVALID,
		       "Unsupported width: operands have 4, 8, 16, 32 or 64 bits, not %u",
		       width_bits);
}

int proton_peak_bytes(const char *device_type, const char *arch, double bus_width_bits,
		      double memory_clock_khz, double *bytes_per_second_out,
		      struct proton_error *err)
{
	if (!device_type || !arch || !bytes_per_second_out)
		return err_set(err, PROTON_E_INVALID, "proton_peak_bytes: a pointer is NULL");
	const struct arch *found = find_arch(device_type, arch);
	/* Every CUDA device has its bus width and clock in the profile: no table is needed. */
	if (!found && strcasecmp(device_type, "CUDA") != 0)
		return refuse_device(device_type, arch, err);
	*bytes_per_second_out = memory_byte_per_s(found, bus_width_bits, memory_clock_khz);
	return PROTON_OK;
}

const char *proton_peak_arch(const char *device_type, uint32_t index)
{
	for (size_t i = 0; device_type && i < ARRAY_LENGTH(archs); i++) {
		if (strcasecmp(archs[i].type, device_type) == 0 && index-- == 0)
			return archs[i].name;
	}
	return NULL;
}
