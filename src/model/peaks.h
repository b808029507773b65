/*
 * Peak rates of devices by architecture: one table for the viewer's "util", for proton_peak_flops()
 * and proton_peak_bytes() of the public header, and for triton_proton.specs.
 */
#ifndef MODEL_PEAKS_H
#define MODEL_PEAKS_H

#include <stdbool.h>

/* Operand widths, in bits, that have their own metric: flops4 ... flops64. */
#define PEAK_WIDTHS 5
extern const unsigned peak_width_bits[PEAK_WIDTHS];
extern const char *const peak_width_metrics[PEAK_WIDTHS];

struct peaks {
	double flop_per_s[PEAK_WIDTHS]; /* dense; by peak_width_bits; NAN: unknown */
	double byte_per_s;
};

struct peaks_device {
	const char *type;  /* "CUDA" or "HIP", in any case */
	const char *arch;  /* "90", "gfx942"; text after a colon is ignored */
	double processors; /* SMs or compute units */
	double clock_khz;  /* clock rate of these */
	double bus_width_bits;
	double memory_clock_khz;
};

/* The peak rates of a device; false if its architecture is not in the table. */
bool peaks_of_arch(const struct peaks_device *device, struct peaks *peaks_out);

#endif
