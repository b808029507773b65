/* GPUs and their properties, read once per GPU. record/store/devices.h has their ids. */
#ifndef DRIVER_GPU_DEVICE_H
#define DRIVER_GPU_DEVICE_H

#include <stdint.h>

/* The GPU with this number in libcuda. */
uint32_t gpu_device_of_cuda(uint32_t ordinal);
/* The GPU with this number in libhip. */
uint32_t gpu_device_of_hip(uint32_t ordinal);
/* The current context's GPU, in `driver`; DEVICE_NONE if there is no context. */
uint32_t gpu_device_here(void);
/* Rate of the global timer in unit headers, on the current context's GPU. */
uint64_t gpu_device_timer_khz(void);

#endif
