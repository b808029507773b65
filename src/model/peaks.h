/*
 * Peak rates of devices by architecture: one table for the viewer's "util", for proton_peak_flops()
 * and proton_peak_bytes() of the public header, and for triton_proton.specs.
 */
#pragma once

#include "model/profile.h"

/* Operand widths, in bits, that have their own metric: flops4 ... flops64. */
#define PEAK_WIDTHS 5
extern const unsigned peak_width_bits[PEAK_WIDTHS];
extern const char *const peak_width_metrics[PEAK_WIDTHS];

struct peaks {
	double flop_per_s[PEAK_WIDTHS]; /* dense; by peak_width_bits; NAN: unknown */
	double byte_per_s;
};

/* The peak rates of a device; false if its architecture is not in the table. */
bool peaks_of_device(const struct profile *profile, const struct row_device *device,
		     struct peaks *peaks_out);
