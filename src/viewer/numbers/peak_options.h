/* The most a device can do: operations and bytes per second, for the metric "util". */
#ifndef VIEWER_NUMBERS_PEAK_OPTIONS_H
#define VIEWER_NUMBERS_PEAK_OPTIONS_H

#include <stdbool.h>

#include "base/err.h"
#include "model/peaks.h"
#include "model/profile.h"

/*
 * Own rates, for all devices, instead of the tables': "flops16=989e12,bytes=3.35e12". What is not
 * named stays what it was, or unknown (NAN). E_INVALID with a sentence.
 */
int peaks_set_own(const char *text, struct proton_error *err);

/* The peaks of a device; false if its architecture is not in the table. */
bool peaks_find(const struct profile *profile, const struct profile_device *device,
		struct peaks *peaks_out);

#endif
