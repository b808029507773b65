/*
 * Visible devices: the HIP ordinals of AMD GPUs under ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES,
 * CUDA_VISIBLE_DEVICES and GPU_DEVICE_ORDINAL. Vendor records name a GPU as the system counts it,
 * and programs as HIP does.
 */
#ifndef DRIVER_VISIBLE_DEVICES_H
#define DRIVER_VISIBLE_DEVICES_H

#include <stddef.h>
#include <stdint.h>

#define VISIBLE_DEVICES_MAX 256

/*
 * `unique_ids` has the machine's GPUs, in the order of their nodes; 0: no id. Writes the HIP
 * ordinal of each, or -1 if HIP does not have it. `hip_count` is the number of devices that HIP
 * reports, -1 if unknown.
 */
void visible_devices_map(const uint64_t *unique_ids, size_t count, int hip_count,
			 int *ordinals_out);

#endif
