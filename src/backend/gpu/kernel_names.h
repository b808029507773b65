/* Frames of kernel names, by the address at which the vendor's library keeps each name once. */
#ifndef BACKEND_GPU_KERNEL_NAMES_H
#define BACKEND_GPU_KERNEL_NAMES_H

#include <stdint.h>

/* NULL is "(unnamed kernel)". Only on the thread of the records. */
uint32_t kernel_names_frame(const char *name);

#endif
