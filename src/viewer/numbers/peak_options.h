/* Peak rates of devices, operations and bytes per second, for the metric "util". */
#ifndef VIEWER_NUMBERS_PEAK_OPTIONS_H
#define VIEWER_NUMBERS_PEAK_OPTIONS_H

#include <stdbool.h>

#include "base/err.h"
#include "model/peaks.h"
#include "model/profile.h"

/*
 * Sets rates for all devices in place of the table's: "flops16=989e12,bytes=3.35e12". Other rates
 * are unchanged, or unknown (NAN). E_INVALID with a message.
 */
int peaks_set_own(const char *text, struct proton_error *err);
/* Back to the table, for the options of the next view. */
void peaks_forget_own(void);

/* The peak rates of a device; false if its architecture is not in the table. */
bool peaks_find(const struct profile *profile, const struct row_device *device,
		struct peaks *peaks_out);

#endif
