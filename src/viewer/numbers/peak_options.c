/* Peak rates of the devices of a profile: from the table (model/peaks.c), or from --peaks. */
#include "viewer/numbers/peak_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --peaks: rates that replace those of the table; 0: use the table. */
static struct peaks own_peaks;
static bool has_own_peaks;

static bool find_in_table(const struct profile *profile, const struct row_device *device,
			  struct peaks *peaks_out)
{
	const struct peaks_device named = {
		.type = profile_text(profile, device->type),
		.arch = profile_text(profile, device->arch),
		.processors = (double)device->processors,
		.clock_khz = (double)device->clock_khz,
		.bus_width_bits = (double)device->bus_width_bits,
		.memory_clock_khz = (double)device->memory_clock_khz,
	};

	return peaks_of_arch(&named, peaks_out);
}

bool peaks_find(const struct profile *profile, const struct row_device *device,
		struct peaks *peaks_out)
{
	bool is_known = find_in_table(profile, device, peaks_out);

	if (!has_own_peaks)
		return is_known;
	if (!is_known)
		*peaks_out = (struct peaks){{NAN, NAN, NAN, NAN, NAN}, NAN};
	for (size_t w = 0; w < PEAK_WIDTHS; w++) {
		if (own_peaks.flop_per_s[w] > 0)
			peaks_out->flop_per_s[w] = own_peaks.flop_per_s[w];
	}
	if (own_peaks.byte_per_s > 0)
		peaks_out->byte_per_s = own_peaks.byte_per_s;
	return true;
}

/* The rate that a name in the option refers to, or NULL. */
static double *own_rate(const char *name, size_t length)
{
	if (length == 5 && memcmp(name, "bytes", 5) == 0)
		return &own_peaks.byte_per_s;
	for (size_t w = 0; w < PEAK_WIDTHS; w++)
		if (strlen(peak_width_metrics[w]) == length &&
		    memcmp(name, peak_width_metrics[w], length) == 0)
			return &own_peaks.flop_per_s[w];
	return NULL;
}

void peaks_forget_own(void)
{
	own_peaks = (struct peaks){0};
	has_own_peaks = false;
}

int peaks_set_own(const char *text, struct proton_error *err)
{
	const char *at = text;

	for (;;) {
		size_t length = strcspn(at, "=,");
		double *rate = at[length] == '=' ? own_rate(at, length) : NULL;
		char *end;

		if (!rate)
			break;
		*rate = strtod(at + length + 1, &end);
		if (end == at + length + 1 || !isfinite(*rate) || *rate <= 0)
			break;
		has_own_peaks = true;
		if (!*end)
			return PROTON_OK;
		if (*end != ',')
			break;
		at = end + 1;
	}
	return err_set(
		err, PROTON_E_INVALID,
		"--peaks needs rates per second such as flops16=989e12,bytes=3.35e12 (flops4, "
		"flops8, flops16, flops32, flops64, bytes), not \"%.100s\"",
		text);
}
